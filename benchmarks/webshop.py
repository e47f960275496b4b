"""Measure `agent_envs/WebShop-v0` on one core: ``python benchmarks/webshop.py [--memory] [--official STEPS_PER_S]``.

Walks are random: a search for a word of the instruction or for the instruction itself, then clicks on what the page
offers, purchases included, 15 turns at most. A step is everything that ``env.step`` does: page, text, clickable texts,
info and state key. "Cold" searches meet an empty cache of results, "warm" ones have all been made before.

Times are CPU times of this process, the best of three rounds for the warm ones. Memory is resident memory of a fresh
process that makes 1, then 128 environments and resets them.

The official engine (princeton-nlp/WebShop with Java and spaCy) made 30-48 steps per second of CPU time on a machine of
this kind, so the default of ``--official`` is 48.
"""

import argparse
import json
import platform
import random
import subprocess
import sys
import time
from typing import Any

import numpy as np

from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.search import MAX_RESULTS

NUM_EPISODES = 400
OFFICIAL_STEPS_PER_S = 48.0


def random_episode(env: WebShopEnv, index: int) -> list[str]:
    """Play a random episode and return its actions."""
    rng = random.Random(index)
    _, info = env.reset(options={"task_index": index})
    actions: list[str] = []
    ended = False
    while not ended:
        action = rng.choice(info["admissible_actions"])
        if action.startswith("search"):
            words = info["task"].split()
            action = f"search[{info['task'] if rng.random() < 0.3 else ' '.join(rng.sample(words, 3))}]"
        actions.append(action)
        _, _, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
    return actions


def replay(env: WebShopEnv, episodes: list[list[str]]) -> float:
    """Return the CPU time of all steps in seconds; resets are left out."""
    spent = 0.0
    for index, actions in enumerate(episodes):
        env.reset(options={"task_index": index})
        start = time.process_time()
        for action in actions:
            env.step(action)
        spent += time.process_time() - start
    return spent


def report_steps(official: float) -> dict[str, Any]:
    start = time.process_time()
    env = WebShopEnv()
    opened_s = time.process_time() - start
    episodes = [random_episode(env, index) for index in range(NUM_EPISODES)]
    steps = sum(map(len, episodes))
    env.engine.search.find.cache_clear()
    cold = steps / replay(env, episodes)
    warm = steps / min(replay(env, episodes) for _ in range(3))
    start = time.process_time()
    for index in range(NUM_EPISODES):
        env.reset(options={"task_index": index})
    reset_us = (time.process_time() - start) / NUM_EPISODES * 1e6
    return {
        "machine": f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}",
        "products": len(env.engine.catalogue),
        "goals": len(env.engine.goals),
        "first environment, CPU seconds": round(opened_s, 2),
        "steps per second, warm": round(warm),
        "steps per second, cold": round(cold),
        f"times the official {official:g} steps per second, warm": round(warm / official),
        f"times the official {official:g} steps per second, cold": round(cold / official),
        "reset, microseconds": round(reset_us),
        **report_search(env, episodes),
    }


def report_search(env: WebShopEnv, episodes: list[list[str]]) -> dict[str, Any]:
    queries = sorted({a[7:-1].lower() for actions in episodes for a in actions if a.startswith("search[")})
    index = env.engine.search._index
    times_ms = []
    for query in queries:
        start = time.process_time()
        index.search(query, MAX_RESULTS)
        times_ms.append((time.process_time() - start) * 1e3)
    whole_ms = []
    for number in range(200):
        query = env.engine.goals[number].instruction_text.lower()
        start = time.process_time()
        index.search(query, MAX_RESULTS)
        whole_ms.append((time.process_time() - start) * 1e3)
    return {
        "queries": len(queries),
        "search, mean ms": round(float(np.mean(times_ms)), 3),
        "search, p95 ms": round(float(np.percentile(times_ms, 95)), 3),
        "search with a whole instruction, mean ms": round(float(np.mean(whole_ms)), 3),
    }


def resident_mib() -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def report_memory() -> dict[str, float]:
    """Make 1, then 128 environments; run this in a fresh process."""
    before = resident_mib()
    envs = [WebShopEnv()]
    envs[0].reset(seed=0)
    one = resident_mib() - before
    envs += [WebShopEnv() for _ in range(127)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
    many = resident_mib() - before
    return {
        "imports, MiB": round(before, 1),
        "1 environment, MiB more": round(one, 1),
        "128 environments, MiB more": round(many, 1),
        "128 against 1": round(many / one, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="measure memory in this process and nothing else")
    parser.add_argument("--official", type=float, default=OFFICIAL_STEPS_PER_S, help="steps per second to compare with")
    arguments = parser.parse_args()
    if arguments.memory:
        print(json.dumps(report_memory()))
        return
    child = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    print(json.dumps({**report_steps(arguments.official), **json.loads(child.stdout)}, indent=2))


if __name__ == "__main__":
    main()
