"""The native ALFWorld engine: recorded games, rules, files, snapshots, oracle."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_envs.envs.alfworld.engine import REFUSED, Engine
from agent_envs.envs.alfworld.gamefile import Game, GameFileError, build_game, load_game
from agent_envs.envs.alfworld.grammar_texts import enumerate_items
from agent_envs.envs.alfworld.oracle import OracleError

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "alfworld"
REAL = Path(os.environ.get("AGENT_ENVS_ALFWORLD_DATA", ROOT.parent / "shared" / "data" / "alfworld_valid_unseen_12"))
REAL_FILES = sorted(REAL.glob("**/game.tw-pddl"))

PLACE_GOAL = "(exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) {facts})))"
MUG_ON_SHELF = PLACE_GOAL.format(facts="(objectType ?o MugType) (receptacleType ?r ShelfType)")
KITCHEN = """
(receptacleType Desk_bar_1 DeskType) (receptacleAtLocation Desk_bar_1 loc_bar_1)
(receptacleType Shelf_bar_1 ShelfType) (receptacleAtLocation Shelf_bar_1 loc_bar_2)
(receptacleType Drawer_bar_1 DrawerType) (receptacleAtLocation Drawer_bar_1 loc_bar_3) (openable Drawer_bar_1)
(receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_4) (openable Fridge_bar_1)
(objectType Mug_bar_1 MugType) (inReceptacle Mug_bar_1 Desk_bar_1) (objectAtLocation Mug_bar_1 loc_bar_1)
(pickupable Mug_bar_1) (coolable Mug_bar_1)
(objectType Book_bar_1 BookType) (inReceptacle Book_bar_1 Desk_bar_1) (objectAtLocation Book_bar_1 loc_bar_1)
(pickupable Book_bar_1)
(canContain DeskType MugType) (canContain ShelfType MugType) (canContain DrawerType MugType)
(canContain FridgeType MugType)
(atLocation agent1 loc_bar_0)
"""


def make_problem(goal: str = MUG_ON_SHELF, init: str = KITCHEN) -> str:
    """A small problem; every word of `init` is declared."""
    words = sorted(set(init.replace("(", " ").replace(")", " ").split()))
    objects = "\n".join(f"{word} - object" for word in words)
    return f"(define (problem small) (:domain alfred)\n(:objects {objects})\n(:init {init})\n(:goal (and {goal})))"


def golden_games() -> list[dict[str, Any]]:
    """All recorded games."""
    games = []
    for name in ("transcripts", "edge_cases"):
        with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            games += [json.loads(line) for line in lines]
    return games


GOLDEN_GAMES = golden_games()
GOLDEN_NAMES = [game.get("name") or f"seed_{game['seed']}" for game in GOLDEN_GAMES]
EPISODES = GOLDEN_GAMES[:24]  # The others are odd rooms.


def golden_game(record: dict[str, Any]) -> Game:
    return build_game(record["pddl_problem"], record["task"])


def random_walk(engine: Engine, num_steps: int, rng: random.Random) -> list[str]:
    """Plays possible commands, verb first, and returns them."""
    commands = []
    for _ in range(num_steps):
        possible = engine.admissible()
        verb = rng.choice(sorted({command.split()[0] for command in possible}))
        commands.append(rng.choice([command for command in possible if command.split()[0] == verb]))
        engine.step(commands[-1])
    return commands


def key(engine: Engine) -> str:
    return json.dumps(engine.changes())


# ---- recorded games ------------------------------------------------------------------------------


def test_recorded_games_are_complete() -> None:
    steps = [step for game in GOLDEN_GAMES for walk in game["walks"].values() for step in walk]
    assert (len(GOLDEN_GAMES), len(steps)) == (71, 5288)
    assert sum(step["feedback"] == REFUSED for step in steps) == 907


@pytest.mark.parametrize("record", GOLDEN_GAMES, ids=GOLDEN_NAMES)
def test_recorded_games_are_repeated_exactly(record: dict[str, Any]) -> None:
    engine = Engine(golden_game(record))
    for name, steps in record["walks"].items():
        for number, step in enumerate(steps):
            seen: dict[str, Any] = {"cmd": step["cmd"], "score": None, "done": None}
            if step["cmd"] is None:
                seen["feedback"] = engine.reset()
            else:
                result = engine.step(step["cmd"])
                seen |= {"feedback": result.feedback, "score": result.score, "done": result.done}
                assert result.won == engine.won
                assert result.admitted == (step["feedback"] != REFUSED)
            seen |= {"adm": engine.admissible(), "won": engine.won, "facts": engine.facts()}
            assert seen == step, f"walk {name}, step {number}"


@pytest.mark.parametrize("record", GOLDEN_GAMES, ids=GOLDEN_NAMES)
def test_oracle_wins_recorded_games(record: dict[str, Any]) -> None:
    engine = Engine(golden_game(record))
    if record.get("name") == "fuzz_names_524":  # Its only receptacle has a name without number: no `go to` fits it.
        with pytest.raises(OracleError, match="No plain plan"):
            engine.oracle()
        return
    plan = engine.oracle()
    assert not engine.won or plan == []  # Planning leaves the game as it was.
    assert all(engine.step(command).admitted for command in plan)
    assert engine.won
    assert len(plan) <= record.get("plan_length", 50)


@pytest.mark.skipif(not REAL_FILES, reason=f"no official games below {REAL}, set AGENT_ENVS_ALFWORLD_DATA")
@pytest.mark.parametrize("grammar", ["0.4", "0.3"])
def test_oracle_wins_official_games(grammar: str) -> None:
    for path in REAL_FILES:
        engine = Engine(load_game(path, grammar))
        for command in engine.oracle():
            assert engine.step(command).admitted
        assert engine.won, path


def test_oracle_wins_from_any_state_it_can_win_from() -> None:
    rng = random.Random(3)
    for record in EPISODES:
        engine = Engine(golden_game(record))
        random_walk(engine, 30, rng)
        if any(engine.state.held in items for items in engine.game.accepts.values()) or not engine.state.held:
            for command in engine.oracle():
                engine.step(command)
            assert engine.won


def test_oracle_reports_a_dead_end() -> None:
    engine = Engine(build_game(make_problem()))
    engine.step("go to desk 1")
    engine.step("take book 1 from desk 1")  # Nothing holds books here, not even the desk.
    with pytest.raises(OracleError, match="<problem>"):
        engine.oracle()


# ---- rules ---------------------------------------------------------------------------------------


def test_texts_of_the_old_grammar() -> None:
    engine = Engine(build_game(make_problem(), "put a mug in shelf", grammar="0.3"))
    assert "help" not in engine.admissible()
    assert engine.step("help").feedback == REFUSED
    assert engine.step("go to desk 1").feedback == "You arrive at loc 4. On the desk 1, you see a book 1, and a mug 1."
    engine.step("take mug 1 from desk 1")
    assert engine.step("move mug 1 to desk 1").feedback == REFUSED
    assert "put mug 1 in/on desk 1" in engine.admissible()
    assert engine.step("put mug 1 in/on desk 1").feedback == "You put the mug 1 in/on the desk 1."


def test_old_grammar_cleans_in_sinks() -> None:
    init = (
        KITCHEN
        + "(receptacleType Sink_bar_1 SinkType) (receptacleAtLocation Sink_bar_1 loc_bar_1) (cleanable Mug_bar_1)"
    )
    for grammar, possible in (("0.4", False), ("0.3", True)):
        engine = Engine(build_game(make_problem(init=init), grammar=grammar))
        engine.step("go to desk 1")
        engine.step("take mug 1 from desk 1")
        assert ("clean mug 1 with sink 1" in engine.admissible()) is possible


@pytest.mark.parametrize("grammar", ["0.4", "0.3"])
@pytest.mark.parametrize(
    "words", ["put {} in/on {}", "put {} in {}", "put {} on {}", "move {} to {}", " put {} on {}\n"]
)
def test_put_alias(grammar: str, words: str) -> None:
    game = build_game(make_problem(), grammar=grammar)
    results = []
    for alias in (True, False):
        engine = Engine(game, put_alias=alias)
        engine.step("go to desk 1")
        engine.step("take mug 1 from desk 1")
        results.append(engine.step(words.format("mug 1", "desk 1")).admitted)
        assert engine.step(words.format("mug 9", "desk 1")).feedback == REFUSED
    own = "move {} to {}" if grammar == "0.4" else "put {} in/on {}"
    assert results == [True, words == own]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "Look",
        "look.",
        "l",
        "go  to desk 1",
        "go to desk 01",
        "go to desk",
        "go to desk 99",
        "look\0",
        "冷蔵庫 é",
    ]
    + ["look " * 2000, "put " + "a in " * 2000, "examine mug 1", "open desk 1", "take mug 1 from shelf 1", "\ud800"],
)
def test_wrong_commands_change_nothing(command: str) -> None:
    engine = Engine(build_game(make_problem()), put_alias=True)
    before = engine.snapshot()
    result = engine.step(command)
    assert result == (REFUSED, 0, False, False, False)
    assert engine.snapshot() == before


def test_outer_blanks_are_forgiven() -> None:
    engine = Engine(build_game(make_problem()))
    assert engine.step("\u3000go to desk 1\u00a0\r\n").admitted


@pytest.mark.parametrize("command", [None, 3, b"look", ["look"]])
def test_a_command_must_be_text(command: Any) -> None:
    with pytest.raises(TypeError, match="A command must be a str, got"):
        Engine(build_game(make_problem())).step(command)


def test_the_game_goes_on_after_a_win() -> None:
    engine = Engine(build_game(make_problem()))
    for command in engine.oracle():
        assert not engine.won
        result = engine.step(command)
    assert (result.score, result.done, result.won) == (1, True, True)
    assert engine.step("nonsense") == (REFUSED, 1, True, True, False)
    assert engine.step("take mug 1 from shelf 1").score == 0


def test_returned_lists_are_fresh() -> None:
    engine = Engine(build_game(make_problem()))
    expected = engine.admissible(), engine.facts(), engine.changes()
    engine.admissible().clear()
    engine.facts()[0].append("x")
    engine.changes()["gained"].append(["x"])
    assert (engine.admissible(), engine.facts(), engine.changes()) == expected


@pytest.mark.parametrize(
    ("items", "text"),
    [([], "nothing"), (["a x"], "a x"), (["a x", "a y"], "a x, and a y"), (["a", "b", "c"], "a, b, and c")],
)
def test_list_form(items: list[str], text: str) -> None:
    assert enumerate_items(items) == text


# ---- states --------------------------------------------------------------------------------------


def test_information_and_refusals_keep_the_state() -> None:
    engine = Engine(build_game(make_problem()))
    engine.step("go to desk 1")
    before = key(engine)
    for command in ("look", "inventory", "help", "examine desk 1", "nonsense"):
        engine.step(command)
        assert key(engine) == before


def test_ways_back_give_the_state_back() -> None:
    engine = Engine(build_game(make_problem()))
    engine.step("go to desk 1")
    at_desk = key(engine)
    engine.step("go to drawer 1")
    at_drawer = key(engine)
    engine.step("go to desk 1")
    engine.step("take mug 1 from desk 1")
    assert key(engine) != at_desk
    engine.step("move mug 1 to desk 1")
    assert key(engine) == at_desk
    engine.step("go to drawer 1")
    engine.step("open drawer 1")
    assert key(engine) != at_drawer
    engine.step("close drawer 1")
    assert key(engine) == at_drawer


@pytest.mark.parametrize("record", EPISODES[::3], ids=GOLDEN_NAMES[:24:3])
def test_changes_say_as_much_as_facts(record: dict[str, Any]) -> None:
    rng = random.Random(record["seed"])
    engine = Engine(golden_game(record))
    start = {tuple(fact) for fact in engine.facts()}
    by_changes: dict[str, Any] = {}
    by_facts: dict[str, str] = {}
    for _ in range(4):
        engine.reset()
        for _ in range(40):
            random_walk(engine, 1, rng)
            changes = engine.changes()
            gained, lost = ({tuple(fact) for fact in changes[name]} for name in ("gained", "lost"))
            assert sorted(map(list, (start - lost) | gained)) == engine.facts()
            assert by_changes.setdefault(key(engine), engine.facts()) == engine.facts()
            assert by_facts.setdefault(json.dumps(engine.facts()), key(engine)) == key(engine)


@pytest.mark.parametrize("index", [None, 24, 26, 32, 12])
def test_equal_states_have_equal_futures(index: int | None) -> None:
    """Searches the states of a room: two ways to equal changes must lead to equal commands and equal successors."""
    game = build_game(make_problem()) if index is None else golden_game(GOLDEN_GAMES[index])
    futures: dict[str, list[tuple[str, str, bool]]] = {}
    queue, num_known = deque([Engine(game)]), 0
    for _ in range(300):
        engine = queue.popleft()
        here, future = key(engine), []
        known = here in futures
        for command in engine.admissible():
            after = engine.clone()
            won = after.step(command).won
            future.append((command, key(after), won))
            if not known:
                queue.append(after)
        num_known += known
        assert futures.setdefault(here, future) == future
    assert len(futures) > 10
    assert num_known > 50


@pytest.mark.parametrize("record", GOLDEN_GAMES[::5], ids=GOLDEN_NAMES[::5])
def test_snapshots_continue_exactly(record: dict[str, Any]) -> None:
    rng = random.Random(5)
    game = golden_game(record)
    engine, other = Engine(game), Engine(game)
    for _ in range(4):
        random_walk(engine, 12, rng)
        other.restore(json.loads(json.dumps(engine.snapshot())))
        for command in ("look", *random_walk(engine.clone(), 10, rng)):
            assert engine.step(command) == other.step(command)
            assert engine.admissible() == other.admissible()
            assert engine.snapshot() == other.snapshot()


def test_snapshots_remember_what_look_says() -> None:
    init = KITCHEN.replace("Shelf_bar_1 loc_bar_2", "Shelf_bar_1 loc_bar_1")  # Two receptacles at one place.
    engine = Engine(build_game(make_problem(init=init)))
    for command in ("go to desk 1", "take mug 1 from desk 1", "move mug 1 to shelf 1"):
        engine.step(command)
    other = Engine(engine.game)
    other.restore(engine.snapshot())
    assert other.step("look").feedback == "You are facing the desk 1, and shelf 1. Next to it, you see a mug 1."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"game": "0"}, "belongs to game 0"),
        ({"gained": [["opened"]]}, "damaged"),
        ({"gained": [["unknown", "x"]]}, "damaged"),
        ({"gained": [["opened", "nowhere"]]}, "damaged"),
        ({"lost": []}, "damaged"),
        ({"gained": []}, "damaged"),
        ({"gained": [["holds", "agent1", "mug_bar_1"]]}, "damaged"),
        ({"gained": [[]]}, "damaged"),
        ({"gained": 3}, "damaged"),
        ({"lost": [["opened", "drawer_bar_1"]]}, "damaged"),
        ({"left": [["mug_bar_1"]]}, "damaged"),
    ],
)
def test_damaged_snapshots_are_refused(change: dict[str, Any], message: str) -> None:
    engine = Engine(build_game(make_problem()))
    engine.step("go to desk 1")
    before = engine.snapshot()
    with pytest.raises(ValueError, match=message):
        engine.restore({**before, **change})
    with pytest.raises(ValueError, match="damaged"):
        engine.restore({})
    assert engine.snapshot() == before


def test_clones_and_pickles_are_independent() -> None:
    engine = Engine(build_game(make_problem()))
    engine.step("go to desk 1")
    before = engine.snapshot()
    for other in (engine.clone(), copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
        assert other.admissible() == engine.admissible()
        assert other.step("take mug 1 from desk 1").admitted
        assert engine.snapshot() == before


def test_threads_share_a_game() -> None:
    games = [golden_game(record) for record in EPISODES[:4]]

    def play(seed: int) -> str:
        engine, rng = Engine(games[seed % 4]), random.Random(seed % 4)
        digest = hashlib.sha256()
        for _ in range(20):
            digest.update(engine.reset().encode())
            for command in random_walk(engine, 20, rng):
                digest.update(f"{command} {engine.step(command)} {engine.admissible()}".encode())
        return digest.hexdigest()

    with ThreadPoolExecutor(8) as pool:
        digests = list(pool.map(play, range(16)))
    assert digests == [play(seed) for seed in range(4)] * 4


def test_ten_thousand_resets_do_not_grow() -> None:
    engine = Engine(golden_game(EPISODES[12]))
    command = engine.admissible()[0]

    def play(num_resets: int) -> int:
        for _ in range(num_resets):
            engine.reset()
            engine.step(command)
            engine.admissible()
        return sys.getallocatedblocks()

    play(200)
    before = play(10)
    assert play(10_000) - before < 200


def test_games_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import gzip, json, random, sys\n"
        "from agent_envs.envs.alfworld.engine import Engine\n"
        "from agent_envs.envs.alfworld.gamefile import build_game\n"
        f"lines = gzip.open({str(GOLDEN / 'transcripts.jsonl.gz')!r}, 'rt', encoding='utf-8')\n"
        "for line in list(lines)[11:18]:\n"
        "    record = json.loads(line)\n"
        "    game = build_game(record['pddl_problem'], record['task'])\n"
        "    engine = Engine(game)\n"
        "    print(game.goal, engine.reset(), engine.oracle(), engine.changes())\n"
        "    rng = random.Random(1)\n"
        "    for _ in range(30):\n"
        "        print(engine.step(rng.choice(engine.admissible())), engine.snapshot())\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]
    outputs = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(outputs) == 1


# ---- files ---------------------------------------------------------------------------------------


def write_game(path: Path, **content: Any) -> Path:
    data = {"pddl_problem": make_problem(), "grammar": '{"rhs": "Your task is to: put a mug in shelf."}'} | content
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_loader_takes_paths_and_bytes(tmp_path: Path) -> None:
    path = write_game(tmp_path / "game.tw-pddl", walkthrough=None)
    game = load_game(path)
    assert game.task == "put a mug in shelf"
    assert load_game(str(path)) is game
    assert load_game(path, "0.3") is not game
    assert load_game(path.read_bytes()).digest == game.digest
    assert Engine(game).reset().endswith("\n\nYour task is to: put a mug in shelf.")


def test_loader_notices_a_changed_file(tmp_path: Path) -> None:
    path = write_game(tmp_path / "game.tw-pddl")
    load_game(path)
    write_game(path, grammar='"Your task is to: put some mug on shelf."')
    assert load_game(path).task == "put some mug on shelf"


def test_the_last_full_stop_ends_the_sentence(tmp_path: Path) -> None:
    text = '"Your task is to: get 2.5 mugs, don\'t ask. Caf\\u00e9 {x} \\"now\\"."'
    assert load_game(write_game(tmp_path / "g", grammar=text)).task == 'get 2.5 mugs, don\'t ask. Café {x} "now"'


@pytest.mark.parametrize(
    ("goal", "sentence"),
    [
        (MUG_ON_SHELF, "put a mug in shelf"),
        (
            PLACE_GOAL.format(facts="(objectType ?o MugType) (receptacleType ?r DeskType) (isCool ?o) (coolable ?o)"),
            "put a cool mug in desk",
        ),
        ("(exists (?a - agent ?o - object) (holds ?a ?o))", "UNKNOWN GOAL"),
    ],
)
def test_plain_problem_files_get_a_sentence(tmp_path: Path, goal: str, sentence: str) -> None:
    path = tmp_path / "initial_state.pddl"
    path.write_text("; a comment (\n" + make_problem(goal), encoding="utf-8")
    assert load_game(path).task == sentence


@pytest.mark.parametrize("seed", range(6))
def test_sentences_fit_the_recorded_tasks(seed: int) -> None:
    """Games without sentence get one that names the classes of the recorded sentence, in its order."""
    record = EPISODES[seed]
    words = [word for word in build_game(record["pddl_problem"]).task.split() if word in record["task"].split()]
    assert len([word for word in words if len(word) > 2]) >= 2


def test_names_count_down_in_id_order() -> None:
    extra = "(receptacleType Sink_bar_1_bar_SinkBasin DeskType) (receptacleType Sink_bar_2 DeskType) (openable Odd)"
    names = build_game(make_problem(init=KITCHEN.replace("Desk_bar_1 loc", "Desk_bar_1 loc") + extra)).names
    assert [names[f"loc_bar_{number}"] for number in range(5)] == ["loc 5", "loc 4", "loc 3", "loc 2", "loc 1"]
    assert names["sink_bar_1_bar_sinkbasin"] == "sinkbasin 1"
    assert names["sink_bar_2"] == "sink 1"
    assert names["odd"] == "odd "


def problem_of(goal: str = MUG_ON_SHELF, init: str = KITCHEN) -> bytes:
    return json.dumps({"pddl_problem": make_problem(goal, init)}).encode()


UNREACHABLE = PLACE_GOAL.format(facts="(objectType ?o BookType) (receptacleType ?r ShelfType)")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected one expression"),
        (b"{", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"\xff\xfe{}", "damaged"),
        (b"[]", "'pddl_problem'"),
        (b'{"pddl_problem": 3}', "'pddl_problem'"),
        (b'{"grammar": ""}', "'pddl_problem'"),
        (b'{"pddl_problem": "(define (problem p)"}', "never closed"),
        (b'{"pddl_problem": "(define))"}', "without its"),
        (b'{"pddl_problem": "hello"}', "does not start"),
        (b'{"pddl_problem": "(define (:objects) (:goal (and)))"}', "no :init"),
        (b'{"pddl_problem": "(define (:objects) (:init))"}', "no :goal"),
        (b'{"pddl_problem": "' + b"(" * 5000 + b'"}', "nested"),
        (problem_of()[:-20] + b'"}', "never closed"),
        (problem_of(init=KITCHEN + "(opened)"), "takes 1"),
        (problem_of(init=KITCHEN + "(not (opened Desk_bar_1))"), "no plain fact"),
        (problem_of(init=KITCHEN + "stray"), "no fact"),
        (problem_of(init=KITCHEN.replace("(atLocation agent1 loc_bar_0)", "")), "atLocation"),
        (problem_of(init=KITCHEN + "(atLocation agent1 loc_bar_1)"), "atLocation"),
        (problem_of(init=KITCHEN + "(holds agent1 Mug_bar_1)"), "holdsAny"),
        (problem_of().replace(b"Mug_bar_1 - object", b""), "does not declare"),
        (problem_of(goal=""), "unknown form"),
        (problem_of(goal="(forall (?o - object) (isClean ?o))"), "unknown form"),
        (problem_of(goal="(not (isClean Mug_bar_1))"), "unknown form"),
        (problem_of(goal="(isClean ?o)"), "outside its quantifier"),
        (problem_of(goal="(exists (?o - object) (isClean ?o ?o))"), "takes 1"),
        (problem_of(goal="(exists (?o ?p - object) (and (holds agent1 ?o) (not (= ?o ?p))))"), "in no fact"),
        (problem_of(goal=UNREACHABLE), "cannot be reached"),
        (problem_of(goal="(exists (?o - object) (isHot ?o))"), "cannot be reached"),
        (problem_of(goal="(exists (?o - object) (isSliced ?o))"), "cannot be reached"),
        (problem_of(goal="(opened Desk_bar_1)"), "cannot be reached"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "broken.tw-pddl"
    path.write_bytes(data)
    with pytest.raises(GameFileError, match=reason) as caught:
        load_game(path)
    assert str(path) in str(caught.value)


def test_costs_and_unknown_facts_are_no_obstacle() -> None:
    init = KITCHEN + "(= (total-cost) 0) (= cost 3) (wasInReceptacle Mug_bar_1 Desk_bar_1)"
    assert Engine(build_game(make_problem(init=init))).oracle()


def test_goals_true_at_the_start_load() -> None:
    engine = Engine(build_game(make_problem(PLACE_GOAL.format(facts="(objectType ?o MugType)"))))
    assert engine.won
    assert engine.oracle() == []


def test_missing_file_and_unknown_grammar(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_game(tmp_path / "nowhere.tw-pddl")
    with pytest.raises(ValueError, match=r"Unknown grammar '0.2'. Grammars: 0.4, 0.3"):
        load_game(write_game(tmp_path / "g"), "0.2")
