"""Cost of a batch step: overhead over the bare environments, and serial against threads against processes.

    python benchmarks/groups.py [--rows 128] [--steps 50]

The overhead is CPU time of the process, the table is wall time per batch step. Both are medians; compare rows of one
run on a machine that does nothing else.
"""

import argparse
import os
import statistics
import time
from functools import partial

from agent_envs import AgentEnv, FreeText
from agent_envs.groups import GroupVectorEnv


class CostEnv(AgentEnv):
    """A counter whose step waits or computes for a given time."""

    SPLITS = {"train": 100, "test": "train"}

    def __init__(self, *, wait_ms=0.0, compute_ms=0.0):
        super().__init__(max_turns=10**9)
        self.observation_space, self.action_space = FreeText(100), FreeText(100)
        self._wait_s, self._compute_s = wait_ms / 1000, compute_ms / 1000

    def _reset_task(self, split, index):
        self._count = index

    def _act(self, action):
        self._count += 1
        if self._wait_s:
            time.sleep(self._wait_s)
        if self._compute_s:
            end = time.thread_time() + self._compute_s
            while time.thread_time() < end:
                pass
        return 0.0, False, True

    def _observe(self):
        return f"count {self._count}"

    def canonical_state(self):
        """Return the count."""
        return self._count

    def example_actions(self):
        """Return nothing: the counter cannot be won."""
        return []


def median_ms(function, repeats, clock):
    times = []
    for _ in range(repeats):
        started = clock()
        function()
        times.append(clock() - started)
    return statistics.median(times) * 1000


def overhead(rows, steps):
    vector = GroupVectorEnv(CostEnv, num_envs=rows, group_size=8)
    bare = [CostEnv() for _ in range(rows)]
    vector.reset(seed=0)
    for env in bare:
        env.reset(seed=0)
    actions = ["x"] * rows
    batched, alone = [], []
    for _ in range(5):  # interleaved: other load of the machine hits both
        batched.append(median_ms(lambda: vector.step(actions), steps, time.process_time))
        alone.append(median_ms(lambda: [env.step("x") for env in bare], steps, time.process_time))
    print(f"batch step of {rows} rows {min(batched):.2f} ms, {rows} bare steps {min(alone):.2f} ms CPU: ", end="")
    print(f"overhead {min(batched) - min(alone):.2f} ms")


def executors(rows, steps):
    kinds = {
        "counter": CostEnv,
        "waits 20 ms": partial(CostEnv, wait_ms=20),
        "computes 1 ms": partial(CostEnv, compute_ms=1),
    }
    print(f"\nms per batch step of {rows} rows | " + " | ".join(kinds))
    for executor in ("serial", "threads", "processes"):
        cells = []
        for factory in kinds.values():
            vector = GroupVectorEnv(factory, num_envs=rows, group_size=8, executor=executor)
            vector.reset(seed=0)
            few = steps if factory is CostEnv else 3
            cells.append(f"{median_ms(lambda v=vector: v.step(['x'] * rows), few, time.perf_counter):.1f}")
            vector.close()
        print(f"{executor} | " + " | ".join(cells))
    started = time.perf_counter()
    vector = GroupVectorEnv(CostEnv, num_envs=rows, group_size=8, executor="processes")
    print(f"start of the workers ({len(os.sched_getaffinity(0))} cores): {time.perf_counter() - started:.2f} s")
    vector.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    overhead(options.rows, options.steps)
    executors(options.rows, options.steps)
