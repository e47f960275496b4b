"""Measure `agent_envs/Sokoban-v0` on one core: ``python benchmarks/sokoban.py [--seeds 200]``.

Times are CPU times of this process, the best of three rounds: other work on the host only ever makes a round slower.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from agent_envs.envs.sokoban import SokobanEnv
from agent_envs.envs.sokoban.generate import LevelParams, generate_level
from agent_envs.envs.sokoban.render import frame, tile_bank
from agent_envs.envs.sokoban.rules import WORDS
from agent_envs.envs.sokoban.solver import solve

NUM_STEPS = 10_000
NUM_BOARDS = 128


def best_of(function: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest CPU time of a call in seconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def step_rate(dim: int, num_boxes: int, obs_mode: str) -> float:
    """Return steps per second of CPU time through ``env.step``, info and state key included."""
    env = SokobanEnv(dim_room=[dim, dim], num_boxes=num_boxes, obs_mode=obs_mode, max_turns=1 << 60)
    env.reset(seed=0, options={"task_index": 0})
    actions = [WORDS[i] for i in np.random.default_rng(0).integers(4, size=NUM_STEPS)]

    def play() -> None:
        for action in actions:
            env.step(action)

    return NUM_STEPS / best_of(play)


def report_steps() -> None:
    print("steps per second of CPU time through env.step")
    for dim, num_boxes in ((6, 1), (10, 4)):
        rates = {mode: step_rate(dim, num_boxes, mode) for mode in ("text", "image", "image_text")}
        row = "  ".join(f"{mode} {rate:8,.0f}" for mode, rate in rates.items())
        print(f"  {dim}x{dim} b{num_boxes}: {row}  (image costs {rates['text'] / rates['image']:.2f} x text)")


def report_key() -> None:
    env = SokobanEnv(dim_room=[10, 10], num_boxes=4)
    env.reset(seed=0, options={"task_index": 0})
    seconds = best_of(lambda: [env.state_key() for _ in range(NUM_STEPS)]) / NUM_STEPS
    print(f"state key of a 10x10 board: {seconds * 1e6:.1f} us")


def _tile_loop(room: bytes, width: int, tile: int) -> np.ndarray:
    """The plain way: one assignment per cell."""
    bank = tile_bank(tile)
    image = np.empty((len(room) // width * tile, width * tile, 3), np.uint8)
    for cell, code in enumerate(room):
        row, column = cell // width * tile, cell % width * tile
        image[row : row + tile, column : column + tile] = bank[code]
    return image


def _bank(room: bytes, width: int, tile: int) -> np.ndarray:
    codes = np.frombuffer(room, np.uint8).reshape(-1, width)
    height = len(codes)
    return tile_bank(tile)[codes].transpose(0, 2, 1, 3, 4).reshape(height * tile, width * tile, 3)


def report_frames() -> None:
    params = LevelParams(height=10, width=10, num_boxes=4, search_depth=30)
    rooms = [generate_level(params, seed).room for seed in range(NUM_BOARDS)]
    times = {}
    for name, painter in (("tile loop", _tile_loop), ("bank", _bank), ("bank + cache", frame)):
        times[name] = best_of(lambda painter=painter: [painter(room, 10, 16) for room in rooms])
    print(f"{NUM_BOARDS} frames of 160x160")
    for name, seconds in times.items():
        print(f"  {name:12s} {seconds * 1e3:6.2f} ms  {times['tile loop'] / seconds:5.1f} x")


def _times(values: Sequence[float]) -> str:
    ordered = sorted(values)
    return (
        f"mean {statistics.fmean(values) * 1e3:7.2f}  median {statistics.median(values) * 1e3:7.2f}  "
        f"max {ordered[-1] * 1e3:7.2f}"
    )


def report_levels(num_seeds: int) -> None:
    print("levels: milliseconds to generate and to solve; share that needs more than 15 moves")
    for dim, num_boxes, depth, seeds in (
        (6, 1, 30, num_seeds),
        (6, 1, 300, num_seeds),
        (6, 2, 300, num_seeds),
        (7, 2, 300, num_seeds),
        (10, 4, 300, max(1, num_seeds // 10)),
    ):
        params = LevelParams(height=dim, width=dim, num_boxes=num_boxes, search_depth=depth)
        made, solved, lengths = [], [], []
        for seed in range(seeds):
            start = time.process_time()
            level = generate_level(params, 5_000_000 + seed)
            made.append(time.process_time() - start)
            start = time.process_time()
            moves = solve(level.room, level.width)
            solved.append(time.process_time() - start)
            lengths.append(float("inf") if moves is None else len(moves))
        long = sum(length > 15 for length in lengths)
        name = f"{dim}x{dim} b{num_boxes} d{depth}"
        print(
            f"  {name:14s} {seeds:4d} seeds  generate {_times(made)} | solve {_times(solved)} | {long / seeds:.1%}, "
            f"{lengths.count(float('inf'))} given up"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="levels per size (a tenth for 10x10)")
    arguments = parser.parse_args()
    report_steps()
    report_key()
    report_frames()
    report_levels(arguments.seeds)


if __name__ == "__main__":
    main()
