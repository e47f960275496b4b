"""Time of every advantage estimator per batch, on one core.

    python benchmarks/advantages.py [--runs 20] [--rows 6400 51200] [--key-length 160]

A run builds the table from Python lists, as a trainer does, checks it, interns the keys and computes the advantages.
`table` is that building alone; the other rows include it. Times are CPU times of this process, medians over the runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from agent_envs.trainers.advantages import (
    EstimatorConfig,
    TurnTable,
    cluster_texts,
    compute_advantages,
    estimator_names,
)

NUM_TURNS = 50
GROUP_SIZE = 8


def make_columns(num_rows: int, key_length: int) -> dict[str, list[Any]]:
    """Groups of 8 walks of 50 turns over 60 states per group, every other one solved."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {
        name: [] for name in "group traj t state next_state reward valid terminated truncated success value".split()
    }
    for walk in range(num_rows // NUM_TURNS):
        group, solved = walk // GROUP_SIZE, walk % 2 == 0
        places = np.minimum(rng.geometric(0.08, NUM_TURNS + 1), 60)
        places[0] = 0
        # New objects, not one object per state: as keys arrive from environments.
        keys = [f"{group}/{place}/".ljust(key_length, "x") for place in places]
        for t in range(NUM_TURNS):
            end = t == NUM_TURNS - 1
            row = (group, walk, t, keys[t], keys[t + 1], 10.0 * (solved and end), bool(rng.random() > 0.05))
            flags = (solved and end, not solved and end, solved, 0.0)
            for name, entry in zip(columns, row + flags, strict=True):
                columns[name].append(entry)
    return columns


def cpu_ms(work: Callable[[], object], runs: int) -> float:
    """Median CPU time of a call in milliseconds, after one call to warm up."""
    work()
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * median(times)


def make_texts(num_texts: int) -> list[str]:
    """Different room descriptions of about 85 letters."""
    rng = np.random.default_rng(0)
    places, things = ["drawer", "cabinet", "shelf", "desk"], ["pen", "book", "cd", "mug", "plate", "laptop"]
    texts: dict[str, None] = {}
    while len(texts) < num_texts:
        seen = ", ".join(f"a {rng.choice(things)} {rng.integers(1, 5)}" for _ in range(rng.integers(1, 7)))
        place = f"{rng.choice(places)} {rng.integers(1, 10)}"
        texts[f"You arrive at {place}. On the {rng.choice(places)} {rng.integers(1, 10)}, you see {seen}."] = None
    return list(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="repetitions per figure (default 20)")
    parser.add_argument("--rows", type=int, nargs="+", default=[6400, 51200], help="batch sizes, multiples of 400")
    parser.add_argument("--key-length", type=int, default=160, help="letters per state key (default 160)")
    args = parser.parse_args()

    batches = [make_columns(rows, args.key_length) for rows in args.rows]
    print("CPU ms, median of", args.runs, "runs")
    print(f"{'estimator':<24}" + "".join(f"{len(batch['t']):>8} rows" for batch in batches))

    def show(name: str, work: Callable[[dict[str, list[Any]]], object]) -> None:
        figures = [cpu_ms(lambda batch=batch: work(batch), args.runs) for batch in batches]
        print(f"{name:<24}" + "".join(f"{figure:>13.1f}" for figure in figures))

    show("table", lambda batch: TurnTable(**batch))
    for name in estimator_names():
        show(name, lambda batch, name=name: compute_advantages(name, TurnTable(**batch)))
    compat = EstimatorConfig(compat="verl-agent")
    show("gigpo, compat", lambda batch: compute_advantages("gigpo", TurnTable(**batch), compat))

    texts = make_texts(400)
    print(f"\nsimilarity, {len(texts)} different texts, mean length {np.mean([len(text) for text in texts]):.0f}")
    for threshold in (0.9, 0.95):
        print(f"threshold {threshold:<14}{cpu_ms(lambda th=threshold: cluster_texts(texts, th), 3):>13.1f}")


if __name__ == "__main__":
    main()
