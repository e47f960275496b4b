"""Steps per second of the card and number games on one core: ``python benchmarks/cards.py [seconds]``.

Each environment plays random accepted actions and is reset, to a new task, when its episode ends; resets are part of
the time and not counted as steps. ``same tasks`` repeats 16 tasks, as the members of a group do; ``new tasks`` never
repeats one, so that every formula on the frame is new more often.
"""

import random
import sys
import time

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids

IDS = ["agent_envs/EZPoints-v0", "agent_envs/Points24-v0", "agent_envs/NumberLine-v0", "agent_envs/Blackjack-v0"]


def steps_per_second(env_id: str, obs_mode: str, seconds: float, num_tasks: int) -> float:
    env = gym.make(env_id, obs_mode=obs_mode).unwrapped
    rng = random.Random(0)
    # actions are drawn beforehand: the policy is not what is measured
    symbols = [rng.choice(env.vocabulary.symbols) for _ in range(4096)]
    task = steps = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        env.reset(options={"task_index": task % num_tasks})
        task += 1
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(symbols[steps % 4096])
            over = terminated or truncated
            steps += 1
    return steps / (time.perf_counter() - begin)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(f"{'environment':28}{'obs_mode':12}{'same tasks':>14}{'new tasks':>14}  steps/s")
    for env_id in IDS:
        for obs_mode in ("image_text", "text"):
            steps_per_second(env_id, obs_mode, 0.3, 16)  # fill the caches
            same = steps_per_second(env_id, obs_mode, seconds, 16)
            new = steps_per_second(env_id, obs_mode, seconds, 1_000_000)
            print(f"{env_id:28}{obs_mode:12}{same:14,.0f}{new:14,.0f}")


if __name__ == "__main__":
    main()
