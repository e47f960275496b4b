"""Time and memory of AppWorld worlds: start, reset, execute, evaluate, several at once.

    python benchmarks/appworld.py [--worlds 8] [--steps 20]

Needs `agent-envs appworld install`. Wall times in milliseconds unless said, on the mini world; `pss` counts pages that
several processes share in equal parts, so the sum over all of them is what they really take.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs.appworld.env import AppWorldEnv
from agent_envs.envs.appworld.pool import close_pools

_READ = "print(apis.supervisor.show_profile()['email'])"


def timed_ms(work: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Median and largest wall time."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return median(times), max(times)


def pss_mb(pid: int) -> float:
    """Proportional set size of a process in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    return 0.0


def show(name: str, figures: tuple[float, float]) -> None:
    print(f"{name:<44}{figures[0]:>10.1f}{figures[1]:>10.1f}")


def one_world(steps: int) -> None:
    env = AppWorldEnv(max_turns=10_000)
    options = {"split": "train", "task_index": 0}
    start = time.perf_counter()
    env.reset(seed=0, options=options)
    print(f"first reset, with the start of the server   {time.perf_counter() - start:>10.1f} s")
    print(f"{'':<44}{'median':>10}{'largest':>10}")
    show("reset", timed_ms(lambda: env.reset(seed=0, options=options), 10))
    show("step that prints", timed_ms(lambda: env.step("print(1)"), steps))
    show("step with one API call", timed_ms(lambda: env.step(_READ), steps))
    show("step that is refused without the server", timed_ms(lambda: env.step(""), steps))
    world = env._world
    assert world is not None
    show("evaluate", timed_ms(world.evaluate, 5))
    env.close()


def many_worlds(num: int, steps: int) -> None:
    vector: Any = gym.make_vec("agent_envs/AppWorld-v0", num_envs=num, group_size=num, max_turns=10_000)
    print(f"\n{num} worlds at once")
    show("reset of all", timed_ms(lambda: vector.reset(seed=0), 3))
    show("step of all, one API call each", timed_ms(lambda: vector.step([_READ] * num), steps))
    worlds = [env.unwrapped._world for env in vector.envs]
    server = worlds[0]._pool._process.pid
    each = [pss_mb(world.pid) for world in worlds]
    print(
        f"memory: server {pss_mb(server):.0f} MB, worlds {min(each):.0f} to {max(each):.0f} MB, together "
        f"{sum(each) + pss_mb(server):.0f} MB"
    )
    start = time.perf_counter()
    vector.close()
    print(f"close of all {1000 * (time.perf_counter() - start):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=8, help="worlds at once (default 8)")
    parser.add_argument("--steps", type=int, default=20, help="steps per figure (default 20)")
    args = parser.parse_args()
    missing = AppWorldEnv.unavailable()
    if missing:
        print(missing)
        return
    one_world(args.steps)
    many_worlds(args.worlds, args.steps)
    close_pools()


if __name__ == "__main__":
    main()
