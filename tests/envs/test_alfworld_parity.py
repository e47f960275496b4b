"""The native ALFWorld engine against the official one: every text, list, score and fact must be equal.

Needs the packages `alfworld` and `textworld` (extra `alfworld`). The official engine plays with caches for pure
functions, which make it 15 times faster; one test here compares it with itself without them.
"""

from __future__ import annotations

import copy
import functools
import gzip
import json
import os
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import build_game
from agent_envs.envs.alfworld.grammar_texts import GRAMMARS
from agent_envs.envs.alfworld.pddl import STATE_PREDICATES

pytest.importorskip("textworld", reason="textworld is not installed (extra alfworld)")
pytest.importorskip("fast_downward", reason="fast_downward is not installed (extra alfworld)")

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "alfworld"
REAL = Path(os.environ.get("AGENT_ENVS_ALFWORLD_DATA", ROOT.parent / "shared" / "data" / "alfworld_valid_unseen_12"))
RANDOM_STEPS = 60


class Case(NamedTuple):
    """A game to compare: what both engines are given."""

    name: str
    problem: str
    task: str
    grammar: str
    official: tuple[str, str] | None  # Domain and grammar text; None takes those of the installed alfworld.


def golden_cases() -> Iterator[Case]:
    """One recorded game per task type, with and without the untidy structures of official games, and odd rooms."""
    for file, chosen in (("transcripts", (1, 3, 10, 12, 14, 17)), ("edge_cases", (0, 1, 2, 20, 40))):
        with gzip.open(GOLDEN / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            games = [json.loads(line) for line in lines]
        for index in chosen:
            yield Case(f"{file}-{index}", games[index]["pddl_problem"], games[index]["task"], "0.4", None)


def real_cases() -> Iterator[Case]:
    """All official games below the data folder, by both grammars where the file brings the old one."""
    for path in sorted(REAL.glob("**/game.tw-pddl")):
        content = json.loads(path.read_text(encoding="utf-8"))
        sentence = content["grammar"].split('"Your task is to: ')[1].split('"')[0].removesuffix(".")
        name = f"{path.parent.parent.name}-{path.parent.name[-6:]}"
        yield Case(name, content["pddl_problem"], sentence, "0.4", None)
        if "put {o} in/on {r}" in content["grammar"]:
            texts = (content["pddl_domain"], content["grammar"])
            yield Case(f"{name}-0.3", content["pddl_problem"], sentence, "0.3", texts)


def parity_cases() -> list[Case]:
    """Every game that the engines are compared on."""
    return [*golden_cases(), *real_cases()]


def install_caches(patch: pytest.MonkeyPatch) -> None:
    """Caches translation and parsing, and copies contexts only as deep as they are written to."""
    import fast_downward
    import textworld.envs.pddl.textgen as textgen
    from textworld.logic import Rule

    translate = fast_downward.pddl2sas

    @functools.lru_cache(8)
    def pddl2sas(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        # The optimised translation serves replanning only, which no test asks for.
        return (
            translate(domain, problem, verbose=verbose, optimize=False) if not optimize else pddl2sas(domain, problem)
        )

    parse = textgen._parse_and_convert
    parsed: dict[tuple[str, str], Any] = {}

    def parse_and_convert(text: str, rule_name: str = "symbols", trace: bool = False) -> Any:
        key = (text, rule_name)
        if key not in parsed:
            parsed[key] = parse(text, rule_name=rule_name, trace=trace)
        return copy.deepcopy(parsed[key])

    class CachedRule:
        parse_conjunctive_query = staticmethod(functools.lru_cache(4096)(Rule.parse_conjunctive_query))

    def copy_context(context: dict[str, Any]) -> dict[str, Any]:
        return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}

    patch.setattr(fast_downward, "pddl2sas", pddl2sas)
    patch.setattr(textgen, "_parse_and_convert", parse_and_convert)
    patch.setattr(textgen, "Rule", CachedRule)
    patch.setattr(textgen, "copy_context", copy_context)


class Official:
    """The official engine. One instance serves all games: each new one would leak a copy of a shared library."""

    def __init__(self) -> None:
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
        from textworld import EnvInfos
        from textworld.envs import PddlEnv

        self.domain = Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8")
        self.grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")
        self._env = AlfredDemangler(PddlEnv(EnvInfos(facts=True, admissible_commands=True)), shuffle=False)

    def start(self, case: Case) -> dict[str, Any]:
        domain, grammar = case.official or (self.domain, self.grammar.replace("UNKNOWN GOAL", case.task))
        self._env.load({"pddl_domain": domain, "grammar": grammar, "pddl_problem": case.problem})
        return self._record(self._env.reset())

    def reset(self) -> dict[str, Any]:
        return self._record(self._env.reset())

    def step(self, command: str) -> dict[str, Any]:
        state, score, done = self._env.step(command)
        return self._record(state) | {"score": score, "done": done}

    @staticmethod
    def _record(state: Any) -> dict[str, Any]:
        facts = ([fact.name, *(argument.name for argument in fact.arguments)] for fact in state["_facts"])
        return {
            "feedback": state.feedback,
            "admissible": state["admissible_commands"],
            "won": state["won"],
            "score": None,
            "done": None,
            "facts": sorted(fact for fact in facts if fact[0] in STATE_PREDICATES),
        }


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Official]:
    """The official engine with caches; its import must not write into the home folder."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("ALFWORLD_DATA", str(tmp_path_factory.mktemp("alfworld")))
        engine = Official()
        install_caches(patch)
        yield engine


class Pair:
    """Both engines on one game; every reaction is compared."""

    def __init__(self, official: Official, case: Case) -> None:
        self._official, self._name = official, case.name
        self.engine = Engine(build_game(case.problem, case.task, grammar=case.grammar, source=case.name))
        self.commands: list[str] = []
        self._compare(official.start(case), self._native(self.engine.reset()))

    def reset(self) -> None:
        self.commands = []
        self._compare(self._official.reset(), self._native(self.engine.reset()))

    def step(self, command: str) -> None:
        self.commands.append(command)
        result = self.engine.step(command)
        ours = self._native(result.feedback) | {"score": result.score, "done": result.done}
        self._compare(self._official.step(command), ours)
        assert result.admitted == (ours["feedback"] != "Nothing happens.")

    def _native(self, feedback: str) -> dict[str, Any]:
        engine = self.engine
        record = {"feedback": feedback, "admissible": engine.admissible(), "won": engine.won, "facts": engine.facts()}
        return record | {"score": None, "done": None}

    def _compare(self, official: dict[str, Any], native: dict[str, Any]) -> None:
        different = [key for key in official if official[key] != native[key]]
        lines = [f"{key}:\n  official {official[key]!r}\n  native   {native[key]!r}" for key in different]
        assert not different, f"{self._name} after {self.commands}\n" + "\n".join(lines)


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


def walk(pair: Pair, case: Case, num_walks: int, num_steps: int) -> None:
    """Compares an oracle walk, random walks, and every class of wrong commands."""
    rng = random.Random(case.name)
    for command in pair.engine.oracle():
        pair.step(command)
    assert pair.engine.won
    for command in wrong_commands(pair.engine, pair.commands, rng).values():
        pair.step(command)
    for _ in range(num_walks):
        pair.reset()
        for _ in range(num_steps):
            pair.step(draw_command(pair.engine, pair.commands, rng))


@pytest.mark.parametrize("case", parity_cases(), ids=lambda case: case.name)
def test_engines_are_equal(official: Official, case: Case) -> None:
    walk(Pair(official, case), case, num_walks=1, num_steps=RANDOM_STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("case", parity_cases(), ids=lambda case: case.name)
def test_engines_are_equal_on_long_walks(official: Official, case: Case) -> None:
    walk(Pair(official, case), case._replace(name=f"{case.name}-long"), num_walks=5, num_steps=RANDOM_STEPS)


def test_real_games_are_compared() -> None:
    if not REAL.is_dir():
        pytest.skip(f"no official games below {REAL}, set AGENT_ENVS_ALFWORLD_DATA")
    assert sum(case.grammar == "0.4" for case in real_cases()) >= 1


def test_caches_do_not_change_the_official_engine(official: Official, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(golden_cases())
    rng = random.Random(7)
    engine, commands = Engine(build_game(case.problem, case.task)), []
    for _ in range(25):
        commands.append(draw_command(engine, commands, rng))
        engine.step(commands[-1])
    with_caches = [official.start(case), *map(official.step, commands)]
    for name in ("_parse_and_convert", "Rule", "copy_context"):
        monkeypatch.setattr(f"textworld.envs.pddl.textgen.{name}", ORIGINALS[name])
    monkeypatch.setattr("fast_downward.pddl2sas", ORIGINALS["pddl2sas"])
    without = [official.start(case), *map(official.step, commands)]
    assert with_caches == without


def _originals() -> dict[str, Callable[..., Any]]:
    """The functions that the caches stand in for, taken before they are installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import fast_downward
        import textworld.envs.pddl.textgen as textgen
    names = ("_parse_and_convert", "Rule", "copy_context")
    return {name: getattr(textgen, name) for name in names} | {"pddl2sas": fast_downward.pddl2sas}


ORIGINALS = _originals()


def test_state_predicates_cover_all_effects_of_the_domain(official: Official) -> None:
    """A fact that a command changes must be part of the state; `checked` and `examined` only record what was seen."""
    old = next((case.official[0] for case in parity_cases() if case.official), official.domain)
    for domain in (official.domain, old):
        text = "\n".join(line.split(";")[0] for line in domain.lower().splitlines())
        effects = [part.split("(:action")[0] for part in text.split(":effect")[1:]]
        assert len(effects) > 10
        heads = set(re.findall(r"\(\s*([a-z]+)", " ".join(effects)))
        assert "inreceptacle" in heads
        assert heads - {"and", "not", "when", "increase", "total"} <= STATE_PREDICATES.keys() | {"checked", "examined"}


def test_help_text_is_the_official_one(official: Official) -> None:
    case = next(golden_cases())
    official.start(case)
    assert official.step("help")["feedback"] == GRAMMARS["0.4"].help_text
