"""Speed of the ALFWorld engines: native, official with the caches of backend="textworld", official as it comes.

    python benchmarks/alfworld.py [--data DIR] [--games N] [--stock-steps N] [--no-batch]

Plays the recorded games of the tests, or the official games below DIR; all engines get the same games and commands, one
after the other in one process. Times are CPU times of one core; a step comes with a fresh list of possible commands and
the facts of the state. Then 16 groups of 8 environments play at once: 128 native ones in this process, and 128 official
ones in worker processes. Without the packages `alfworld` and `textworld` only the native engine is measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import decode_game
from agent_envs.envs.alfworld.pddl import STATE_PREDICATES
from agent_envs.errors import DependencyNotInstalled

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "alfworld" / "transcripts.jsonl.gz"
EPISODE_STEPS = 50
NUM_GROUPS, GROUP_SIZE, BATCH_STEPS = 16, 8, 10

Make = Callable[[bytes], Any]
"""Content of a game file to a running engine."""


class Stock:
    """The official packages as they come, behind the few methods that are measured."""

    def __init__(self, content: bytes) -> None:
        from agent_envs.envs.alfworld.textworld_cache import packages

        self._env = packages().make_env()
        domain, grammar = packages().texts["0.4"]
        problem = json.loads(content)["pddl_problem"]
        self._env.load({"pddl_domain": domain, "grammar": grammar, "pddl_problem": problem})

    def reset(self) -> None:
        """Goes back to the start."""
        self._state = self._env.reset()

    def step(self, command: str) -> None:
        """Carries out one command."""
        self._state, _, _ = self._env.step(command)

    def admissible(self) -> list[str]:
        """Returns all possible commands."""
        return list(self._state["admissible_commands"])

    def facts(self) -> list[list[str]]:
        """Returns the facts that commands can change."""
        facts = [fact for fact in self._state["_facts"] if fact.name in STATE_PREDICATES]
        return sorted([fact.name, *(argument.name for argument in fact.arguments)] for fact in facts)


def read_contents(data: Path | None, num_games: int) -> list[bytes]:
    """Contents of game files, spread evenly over what there is."""
    if data is not None:
        contents = [path.read_bytes() for path in sorted(data.glob("**/game.tw-pddl"))]
    else:
        with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
            games = [json.loads(line) for line in lines]
        grammar = '"Your task is to: {}."'
        contents = [
            json.dumps({"pddl_problem": game["pddl_problem"], "grammar": grammar.format(game["task"])}).encode()
            for game in games
        ]
    if not contents:
        raise SystemExit(f"no game.tw-pddl below {data}")
    return contents[:: max(1, len(contents) // num_games)][:num_games]


def cpu_s(function: Callable[[], object]) -> float:
    """CPU time of `function` in seconds."""
    start = time.process_time()
    function()
    return time.process_time() - start


def draw_walk(engine: Engine, rng: random.Random) -> list[str]:
    """Possible commands drawn uniformly, for one episode."""
    engine.reset()
    commands = []
    for _ in range(EPISODE_STEPS):
        commands.append(rng.choice(engine.admissible()))
        engine.step(commands[-1])
    return commands


def resident_mb(pids: Sequence[int] = (os.getpid(),)) -> float:
    """Resident memory of processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(
    make: Make, contents: Sequence[bytes], walks: Sequence[Sequence[str]], *, repeats: int, num_more: int
) -> dict[str, float]:
    """Returns the figures of one engine; repeats of the same measurement give the median."""
    loads, resets, steps = [], [], []
    for content, commands in zip(contents, walks, strict=True):
        start = time.process_time()
        engine = make(content)
        loads.append(time.process_time() - start)
        engine.reset()
        engine.step("look")  # the official backend has nothing to do at the first reset

        def play(engine: Any = engine, commands: Sequence[str] = commands) -> None:
            for command in commands:
                engine.step(command)
                engine.admissible()
                engine.facts()

        for _ in range(repeats):
            resets.append(cpu_s(engine.reset))
            steps.append(cpu_s(play) / len(commands))
    before = resident_mb()
    more = [make(contents[index % len(contents)]) for index in range(num_more)]
    for engine in more:
        engine.reset()
    memory_mb = (resident_mb() - before) / num_more
    return {
        "steps/s with commands and facts": 1 / median(steps),
        "load ms (median)": 1e3 * median(loads),
        "load ms (largest)": 1e3 * max(loads),
        "reset ms": 1e3 * median(resets),
        "MB per further environment": memory_mb,
    }


def measure_batch(**kwargs: Any) -> dict[str, float]:
    """Returns the figures of 16 groups of 8 environments of large generated games, in wall time."""
    vector: Any = gym.make_vec(
        "agent_envs/ALFWorld-v0", num_envs=NUM_GROUPS * GROUP_SIZE, group_size=GROUP_SIZE, **kwargs
    )
    try:
        starts = []
        for seed in (0, 0):
            start = time.perf_counter()
            infos = vector.reset(seed=seed, options={"split": "train"})[1]
            starts.append(time.perf_counter() - start)
        start = time.perf_counter()
        for step in range(BATCH_STEPS):
            actions = [commands[step % len(commands)] for commands in infos["admissible_actions"]]
            infos = vector.step(actions)[-1]
        step_s = (time.perf_counter() - start) / BATCH_STEPS
        workers = [process.pid for process in multiprocessing.active_children() if process.pid is not None]
        memory_mb = resident_mb(workers or (os.getpid(),))
    finally:
        vector.close()
    return {
        "128 environments: steps/s": NUM_GROUPS * GROUP_SIZE / step_s,
        "128: first reset s": starts[0],
        "128: same games again s": starts[1],
        "128: MB of all processes": memory_mb,
    }


def print_table(columns: dict[str, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    print(f"{'':40}" + "".join(f"{title:>14}" for title in columns))
    for name in names:
        cells = (column.get(name) for column in columns.values())
        print(f"{name:40}" + "".join(f"{'' if cell is None else f'{cell:14.4g}':>14}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with official games")
    parser.add_argument("--games", type=int, default=12, help="number of games")
    parser.add_argument(
        "--stock-steps", type=int, default=25, help=f"steps per game of the official engine, at most {EPISODE_STEPS}"
    )
    parser.add_argument("--no-batch", action="store_true", help="leave out the 128 environments")
    arguments = parser.parse_args()
    # This file has the name of the official package and would be imported in its place, in workers too.
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).parent]
    contents = read_contents(arguments.data, arguments.games)
    rng = random.Random(0)
    walks = [draw_walk(Engine(decode_game(content)), rng) for content in contents]
    few = [commands[: arguments.stock_steps] for commands in walks]
    columns = {"native": measure(lambda c: Engine(decode_game(c)), contents, walks, repeats=9, num_more=1000)}
    try:
        from agent_envs.envs.alfworld.textworld_backend import TextworldEngine
        from agent_envs.envs.alfworld.textworld_cache import packages

        packages()  # imports them, which is no part of loading a game
        columns["textworld"] = measure(TextworldEngine, contents, walks, repeats=3, num_more=16)
        columns["stock"] = measure(Stock, contents, few, repeats=1, num_more=8)
    except DependencyNotInstalled as error:
        print(f"official engine left out: {error}")
    if not arguments.no_batch:
        columns["native"] |= measure_batch()
        if "textworld" in columns:
            columns["textworld"] |= measure_batch(backend="textworld")
    if "stock" in columns:
        key = "steps/s with commands and facts"
        for title in ("native", "textworld"):
            columns[title]["times stock steps/s"] = columns[title][key] / columns["stock"][key]
    print(f"{len(contents)} games, {sum(map(len, walks))} steps, numpy {np.__version__}, {os.cpu_count()} cores")
    print_table(columns)


if __name__ == "__main__":
    main()
