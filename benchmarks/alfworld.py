"""Speed of the ALFWorld engines on one core: load, reset, steps, memory.

    python benchmarks/alfworld.py [--data DIR] [--games N] [--stock-steps N]

Plays the recorded games of the tests, or the official games below DIR. The official engine is measured in the same run,
on the same games and commands, where `alfworld` and `textworld` are installed. All times are CPU times of this process;
a step is measured with a fresh list of possible commands and the facts of the state.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import build_game, decode_game

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "alfworld" / "transcripts.jsonl.gz"
EPISODE_STEPS = 50


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


def cpu_s(function: Callable[[], object], repeats: int) -> float:
    """Median CPU time of `function` in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return median(times)


def draw_walk(engine: Engine, rng: random.Random) -> list[str]:
    """Possible commands drawn uniformly, for one episode."""
    engine.reset()
    commands = []
    for _ in range(EPISODE_STEPS):
        commands.append(rng.choice(engine.admissible()))
        engine.step(commands[-1])
    return commands


def measure_native(contents: list[bytes], walks: list[list[str]]) -> dict[str, float]:
    games = [decode_game(content) for content in contents]
    engines = [Engine(game) for game in games]

    def play(observe: Callable[[Engine], object]) -> Callable[[], None]:
        def run() -> None:
            for engine, commands in zip(engines, walks, strict=True):
                engine.reset()
                for command in commands:
                    engine.step(command)
                    observe(engine)

        return run

    num_steps = sum(map(len, walks))
    observers: dict[str, Callable[[Engine], object]] = {
        "commands": lambda engine: engine.admissible(),
        "commands and changes": lambda engine: (engine.admissible(), engine.changes()),
        "commands and facts": lambda engine: (engine.admissible(), engine.facts()),
    }
    result = {f"steps/s with {name}": num_steps / cpu_s(play(observe), 9) for name, observe in observers.items()}
    loads = [cpu_s(lambda content=content: decode_game(content), 5) for content in contents]  # type: ignore[misc]
    result["load ms (median)"] = 1e3 * median(loads)
    result["load ms (largest)"] = 1e3 * max(loads)
    result["reset ms"] = (
        1e3 * cpu_s(lambda: [engine.reset() for engine in engines for _ in range(50)], 9) / 50 / len(engines)
    )
    result["oracle ms"] = 1e3 * cpu_s(lambda: [Engine(game).oracle() for game in games], 3) / len(games)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    many = [Engine(games[index % len(games)]) for index in range(128)]
    for engine in many:
        engine.admissible()
    result["KB per environment (of 128)"] = (tracemalloc.get_traced_memory()[0] - before) / 1024 / len(many)
    before = tracemalloc.get_traced_memory()[0]
    more = [decode_game(content) for content in contents]
    result["KB per game"] = (tracemalloc.get_traced_memory()[0] - before) / 1024 / len(more)
    tracemalloc.stop()
    return result


def measure_official(contents: list[bytes], walks: list[list[str]], num_steps: int) -> dict[str, float]:
    """The official engine without any cache; raises ImportError where it is not installed."""
    # This file has the name of the official package and would be imported in its place.
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).parent]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ALFWORLD_DATA", folder)
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
        from textworld import EnvInfos
        from textworld.envs import PddlEnv
    domain = Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8")
    grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")
    env = AlfredDemangler(PddlEnv(EnvInfos(facts=True, admissible_commands=True)), shuffle=False)
    loads, resets, steps = [], [], 0.0
    for content, commands in zip(contents, walks, strict=True):
        data = {"pddl_domain": domain, "grammar": grammar, "pddl_problem": json.loads(content)["pddl_problem"]}
        loads.append(cpu_s(lambda data=data: env.load(data), 1))  # type: ignore[misc]
        resets.append(cpu_s(env.reset, 1))
        steps += cpu_s(lambda commands=commands: [env.step(c) for c in commands[:num_steps]], 1)  # type: ignore[misc]
    return {
        "steps/s with commands and facts": len(contents) * num_steps / steps,
        "load ms (median)": 1e3 * median(loads),
        "load ms (largest)": 1e3 * max(loads),
        "reset ms": 1e3 * median(resets),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with official games")
    parser.add_argument("--games", type=int, default=12, help="number of games")
    parser.add_argument(
        "--stock-steps", type=int, default=25, help=f"steps per game of the official engine, at most {EPISODE_STEPS}"
    )
    arguments = parser.parse_args()
    contents = read_contents(arguments.data, arguments.games)
    rng = random.Random(0)
    walks = [draw_walk(Engine(build_game(json.loads(content)["pddl_problem"])), rng) for content in contents]
    native = measure_native(contents, walks)
    try:
        official = measure_official(contents, walks, min(arguments.stock_steps, EPISODE_STEPS))
    except ImportError as error:
        print(f"official engine left out ({error}), install it with: pip install 'agent-envs[alfworld]'")
        official = {}
    print(f"{len(contents)} games, {sum(map(len, walks))} steps")
    print(f"{'':40}{'native':>12}{'official':>12}{'ratio':>9}")
    for name, value in native.items():
        other = official.get(name)
        ratio = "" if other is None else f"{value / other if name.startswith('steps') else other / value:9.0f}"
        print(f"{name:40}{value:12.4g}{'' if other is None else f'{other:12.4g}':>12}{ratio:>9}")


if __name__ == "__main__":
    main()
