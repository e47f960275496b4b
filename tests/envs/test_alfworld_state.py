"""States of the native ALFWorld engine: keys, snapshots, threads, memory, determinism."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from alfworld_rooms import (
    EPISODES,
    GOLDEN,
    GOLDEN_GAMES,
    GOLDEN_NAMES,
    KITCHEN,
    ROOT,
    golden_game,
    key,
    make_problem,
    random_walk,
)

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import build_game


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
