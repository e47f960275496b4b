"""Calls per second of the card and number games on one core: ``python benchmarks/cards.py [seconds]``.

Each environment plays random accepted actions and is reset, to a new task, when its episode ends. Steps and resets
are counted alike: both return an observation, and a game of Blackjack has little more than one step. Processor time is
measured, so that other work on the machine matters less. ``same tasks`` repeats 16 tasks, as the members of groups do;
``new tasks`` never repeats one.
"""

import random
import sys
import time

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids

IDS = ["agent_envs/EZPoints-v0", "agent_envs/Points24-v0", "agent_envs/NumberLine-v0", "agent_envs/Blackjack-v0"]


def calls_per_second(env_id: str, obs_mode: str, seconds: float, num_tasks: int) -> float:
    env = gym.make(env_id, obs_mode=obs_mode).unwrapped
    rng = random.Random(0)
    # actions are drawn beforehand: the policy is not what is measured
    symbols = [rng.choice(env.vocabulary.symbols) for _ in range(4096)]
    task = calls = 0
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        env.reset(options={"task_index": task % num_tasks})
        task += 1
        calls += 1
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(symbols[calls % 4096])
            over = terminated or truncated
            calls += 1
    return calls / (time.process_time() - begin)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(f"{'environment':28}{'obs_mode':12}{'same tasks':>14}{'new tasks':>14}  calls/s")
    for env_id in IDS:
        for obs_mode in ("image_text", "text"):
            calls_per_second(env_id, obs_mode, 0.3, 16)  # fill the caches
            same = calls_per_second(env_id, obs_mode, seconds, 16)
            new = calls_per_second(env_id, obs_mode, seconds, 1_000_000)
            print(f"{env_id:28}{obs_mode:12}{same:14,.0f}{new:14,.0f}")


if __name__ == "__main__":
    main()
