"""The native ALFWorld engine against the official one: every text, list, score and fact must be equal.

Needs the packages `alfworld` and `textworld` (extra `alfworld`). The official engine plays behind our backend, whose
caches make it some 60 times faster; here it is also compared with the bare packages.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import load_game
from agent_envs.envs.alfworld.generator import GameSpec, generate_game, official_rules
from agent_envs.envs.alfworld.generator_tables import SIZES, TASK_TYPES
from agent_envs.envs.alfworld.grammar_texts import GRAMMARS
from agent_envs.envs.alfworld.pddl import STATE_PREDICATES

pytest.importorskip("textworld", reason="textworld is not installed (extra alfworld)")
pytest.importorskip("fast_downward", reason="fast_downward is not installed (extra alfworld)")

from agent_envs.envs.alfworld.textworld_backend import TextworldEngine  # noqa: E402
from agent_envs.envs.alfworld.textworld_cache import packages  # noqa: E402

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "alfworld"
REAL = Path(os.environ.get("AGENT_ENVS_ALFWORLD_DATA", ROOT.parent / "shared" / "data" / "alfworld_valid_unseen_12"))
RANDOM_STEPS = 60
GAMES_PER_KIND = 5  # of a task type and size
SLOW_GAMES_PER_KIND = 42


class Case(NamedTuple):
    """A game to compare."""

    name: str
    content: bytes
    grammar: str


def content_of(problem: str, task: str) -> bytes:
    grammar = f'"Your task is to: {task}."'
    return json.dumps({"pddl_problem": problem, "grammar": grammar}).encode()


def golden_cases() -> Iterator[Case]:
    """One recorded game per task type, with and without the untidy structures of official games, and odd rooms."""
    for file, chosen in (("transcripts", (1, 3, 10, 12, 14, 17)), ("edge_cases", (0, 1, 2, 20, 40))):
        with gzip.open(GOLDEN / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            games = [json.loads(line) for line in lines]
        for index in chosen:
            yield Case(f"{file}-{index}", content_of(games[index]["pddl_problem"], games[index]["task"]), "0.4")


def own_cases(first_seed: int, count: int, grammar: str = "0.4") -> Iterator[Case]:
    """Generated games of every task type and size, in rooms of both kinds of splits."""
    for size in SIZES:
        for task_type in TASK_TYPES:
            for seed in range(first_seed, first_seed + count):
                spec = GameSpec(seed=seed, task_type=task_type, size=size, unseen=seed % 2 == 1)
                yield Case(f"{task_type}-{size}-{seed}-{grammar}", generate_game(spec).content(), grammar)


def real_cases() -> Iterator[Case]:
    """All official games below the data folder, in both grammars."""
    for path in sorted(REAL.glob("**/game.tw-pddl")):
        for grammar in GRAMMARS:
            name = f"{path.parent.parent.name}-{path.parent.name[-6:]}-{grammar}"
            yield Case(name, path.read_bytes(), grammar)


CASES = [*golden_cases(), *own_cases(0, GAMES_PER_KIND), *own_cases(GAMES_PER_KIND, 1, "0.3"), *real_cases()]


class Pair:
    """Both engines on one game; every reaction is compared."""

    def __init__(self, case: Case) -> None:
        self.name = case.name
        self.native = Engine(load_game(case.content, case.grammar))
        self.official = TextworldEngine(case.content, grammar=case.grammar)
        self.reset()

    def reset(self) -> None:
        self.commands: list[str] = []
        self._compare(self.official.reset(), self.native.reset())

    def step(self, command: str) -> None:
        self.commands.append(command)
        self._compare(self.official.step(command), self.native.step(command))

    def _compare(self, official: Any, native: Any) -> None:
        pairs = {"reaction": (official, native)}
        for name in ("admissible", "facts", "changes"):
            pairs[name] = getattr(self.official, name)(), getattr(self.native, name)()
        pairs["won"] = self.official.won, self.native.won
        lines = [f"{key}:\n  official {a!r}\n  native   {b!r}" for key, (a, b) in pairs.items() if a != b]
        assert not lines, f"{self.name} after {self.commands}\n" + "\n".join(lines)


def wrong_commands(engine: Engine, earlier: list[str], rng: random.Random) -> dict[str, str]:
    """One command of every class of mistakes; outer blanks are the one that is forgiven."""
    possible, names = engine.admissible(), sorted(engine.game.names.values())
    command = rng.choice(possible)
    receptacle = engine.game.names[rng.choice(sorted(engine.game.locations))]
    other = engine.game.names[rng.choice(sorted(engine.game.locations))]
    return {
        "nonsense": "dance with the moon",
        "upper case": command.upper(),
        "title case": command.title(),
        "doubled blank": command.replace(" ", "  ", 1) if " " in command else command + "  x",
        "outer blanks": rng.choice(("  {} \n", "\t{}\u00a0", "\u3000{}", "{}\r\n")).format(command),
        "unknown number": f"go to {receptacle.split()[0]} 99",
        "leading zero": f"go to {receptacle.split()[0]} 01",
        "missing number": f"go to {receptacle.split()[0]}",
        "empty": "",
        "blanks": "   ",
        "full stop": command + ".",
        "receptacle as object": f"{rng.choice(('put', 'move', 'take'))} {receptacle} to {other}",
        "take a receptacle": f"take {receptacle} from {other}",
        "place": f"{rng.choice(('move {} to', 'put {} in/on', 'put {} in')).format(rng.choice(names))} {receptacle}",
        "elsewhere": f"{rng.choice(('open', 'close', 'examine'))} {receptacle}",
        "examine anything": f"examine {rng.choice(names)}",
        "use anything": f"use {rng.choice(names)}",
        "slice anything": f"slice {rng.choice(names)} with {rng.choice(names)}",
        "abbreviation": rng.choice(("l", "i", "inv", "x desk 1", "exam", "h", "help me", "inventory ?")),
        "possible earlier": rng.choice(earlier or ["look"]),
        "again": earlier[-1] if earlier else "look",
        "accents": "öffne die Schublade é 冷蔵庫",
        "long": "look " * 2000,
        "null": "look\0",
    }


def draw_command(engine: Engine, earlier: list[str], rng: random.Random) -> str:
    """A possible command three times in four, verb first so that moves do not crowd out the rest; else a wrong one."""
    if rng.random() < 0.25:
        return rng.choice(sorted(wrong_commands(engine, earlier, rng).values()))
    possible = engine.admissible()
    verb = rng.choice(sorted({command.split()[0] for command in possible}))
    return rng.choice([command for command in possible if command.split()[0] == verb])


def walk(case: Case, *, seed: str, num_walks: int) -> None:
    """Compares an oracle walk, every class of wrong commands, and random walks."""
    pair, rng = Pair(case), random.Random(seed)
    plan = pair.native.oracle()
    assert pair.official.oracle() == plan
    for command in plan:
        pair.step(command)
    assert pair.official.won
    for command in wrong_commands(pair.native, pair.commands, rng).values():
        pair.step(command)
    for _ in range(num_walks):
        pair.reset()
        for _ in range(RANDOM_STEPS):
            pair.step(draw_command(pair.native, pair.commands, rng))
    pair.official.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_engines_are_equal(case: Case) -> None:
    walk(case, seed=case.name, num_walks=1)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 1000 + SLOW_GAMES_PER_KIND))
def test_engines_are_equal_on_many_games(first_seed: int) -> None:
    for case in own_cases(first_seed, 1):
        walk(case, seed=case.name, num_walks=5)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_engines_are_equal_on_long_walks(case: Case) -> None:
    walk(case, seed=f"{case.name}-long", num_walks=5)


def test_real_games_are_compared() -> None:
    if not REAL.is_dir():
        pytest.skip(f"no official games below {REAL}, set AGENT_ENVS_ALFWORLD_DATA")
    assert sum(case.grammar == "0.4" for case in real_cases()) >= 1


class Bare:
    """The official packages as their users call them: no cache, the task sentence in the grammar."""

    def __init__(self, case: Case) -> None:
        game = load_game(case.content)
        domain, grammar = official_rules()
        problem = json.loads(case.content)["pddl_problem"]
        texts = grammar.replace("UNKNOWN GOAL", game.task)
        self._env = packages().make_env()
        self._env.load({"pddl_domain": domain, "grammar": texts, "pddl_problem": problem})

    def play(self, commands: list[str]) -> Iterator[tuple[Any, ...]]:
        yield self._record(self._env.reset(), None, False)
        for command in commands:
            yield self._record(*self._env.step(command))

    @staticmethod
    def _record(state: Any, score: int | None, done: bool) -> tuple[Any, ...]:
        facts = ([fact.name, *(argument.name for argument in fact.arguments)] for fact in state["_facts"])
        kept = sorted(fact for fact in facts if fact[0] in STATE_PREDICATES)
        return state.feedback, score, done, state["won"], state["admissible_commands"], kept


def play_backend(case: Case, commands: list[str]) -> Iterator[tuple[Any, ...]]:
    engine = TextworldEngine(case.content)
    yield engine.reset(), None, False, engine.won, engine.admissible(), engine.facts()
    for command in commands:
        result = engine.step(command)
        yield result.feedback, result.score, result.done, result.won, engine.admissible(), engine.facts()


def compare_with_bare(case: Case, num_steps: int) -> None:
    native, rng = Engine(load_game(case.content)), random.Random(case.name)
    commands = native.oracle()
    for _ in range(num_steps):
        commands.append(draw_command(native, commands, rng))
        native.step(commands[-1])
    assert list(play_backend(case, commands)) == list(Bare(case).play(commands))


@pytest.mark.parametrize("case", [CASES[1], CASES[8], CASES[15]], ids=lambda case: case.name)
def test_caches_change_nothing(case: Case) -> None:
    compare_with_bare(case, 10)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.grammar == "0.4"][::6], ids=lambda case: case.name)
def test_caches_change_nothing_on_many_games(case: Case) -> None:
    compare_with_bare(case, 25)


def test_state_predicates_cover_all_effects_of_the_domain() -> None:
    """A fact that a command changes must be part of the state; `checked` and `examined` only record what was seen."""
    for domain, _ in packages().texts.values():
        text = "\n".join(line.split(";")[0] for line in domain.lower().splitlines())
        effects = [part.split("(:action")[0] for part in text.split(":effect")[1:]]
        assert len(effects) > 10
        heads = set(re.findall(r"\(\s*([a-z]+)", " ".join(effects)))
        assert "inreceptacle" in heads
        assert heads - {"and", "not", "when", "increase", "total"} <= STATE_PREDICATES.keys() | {"checked", "examined"}


def test_older_texts_are_those_in_the_files_of_older_releases() -> None:
    files = sorted(REAL.glob("**/game.tw-pddl"))
    contents = [json.loads(path.read_bytes()) for path in files]
    old = [content for content in contents if "put {o} in/on {r}" in content.get("grammar", "")]
    if not old:
        pytest.skip(f"no game of an older release below {REAL}, set AGENT_ENVS_ALFWORLD_DATA")
    domain, grammar = (" ".join(text.split()) for text in packages().texts["0.3"])
    for content in old:
        assert " ".join(content["pddl_domain"].split()) == domain
        texts = re.sub(r'(Your task is to: )[^"]*\."', r'\1UNKNOWN GOAL."', content["grammar"])
        assert " ".join(texts.split()) == grammar
