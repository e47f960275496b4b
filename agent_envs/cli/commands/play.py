"""Play an environment in the terminal: type actions, see observations, rewards and state keys."""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agent_envs.cli.common import parse_kwargs, resolve_id
from agent_envs.core import AgentEnv
from agent_envs.registration import load_class

EXAMPLES = """examples:
  agent-envs play Sokoban                          a random training task
  agent-envs play EZPoints --seed 3                observations in words; obs_mode= and --frames show pictures
  agent-envs play Sokoban num_boxes=2 --split test --task 5 --frames frames/
  printf 'up\\nleft\\n' | agent-envs play Sokoban    actions from a file or pipe

  agent-envs play my_lab.envs:my_lab/Maze-v0       your own environment

while playing:
  :hint   the next action of a winning walk      :valid  the admissible actions, where known
  :reset  the same task again                    :quit   leave (also Ctrl-D)
"""

_COMMANDS = "Commands: :hint :valid :reset :quit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``play``."""
    parser.add_argument("env_id", metavar="ID", help="environment id; the namespace and -v0 may be left out")
    parser.add_argument("kwargs", metavar="key=value", nargs="*", help="keyword arguments of the environment")
    parser.add_argument("--seed", type=int, help="seed that draws the task")
    parser.add_argument("--split", help="split of the task (default: train)")
    parser.add_argument("--task", type=int, help="index of the task in its split")
    parser.add_argument("--frames", type=Path, metavar="DIR", help="save each frame as DIR/turn_NNN.png")


def run(args: argparse.Namespace) -> int:
    """Play one session; exit status 0."""
    kwargs = parse_kwargs(args.kwargs)
    if args.frames:
        kwargs["render_mode"] = "rgb_array"
        args.frames.mkdir(parents=True, exist_ok=True)
    env_id = resolve_id(args.env_id)
    takes = inspect.signature(load_class(str(gym.spec(env_id).kwargs["env_class"]))).parameters
    if "obs_mode" in takes and not args.frames:
        kwargs.setdefault("obs_mode", "text")  # a terminal shows no pictures
    env = gym.make(env_id, **kwargs)
    options = {key: value for key, value in (("split", args.split), ("task_index", args.task)) if value is not None}
    observation, info = env.reset(seed=args.seed, options=options)
    base = env.unwrapped
    if not isinstance(base, AgentEnv):
        raise ValueError("A person plays one member: leave out group_size.")
    again = {"split": info["task_id"].split("/")[1], "task_index": base.task_index}
    print(f"task {info['task_id']}: {info['task']}\n{_COMMANDS}")
    while True:
        _show(env, observation, info, args.frames)
        action = _ask(info["turn"], base.max_turns)
        if action is None or action == ":quit":
            break
        if action == ":hint":
            print(f"hint: {(base.example_actions() or ['no winning walk from here'])[0]}")
        elif action == ":valid":
            print("\n".join(info.get("admissible_actions") or ["this environment does not list them"]))
        elif action == ":reset":
            observation, info = env.reset(options=again)
        elif action.startswith(":"):
            print(f"Unknown command {action!r}. {_COMMANDS}")
        else:
            observation, reward, terminated, truncated, info = env.step(action)
            refused = "" if info["action_is_valid"] else f"  refused ({info['refusal']})"
            print(f"reward {reward:g}{refused}")
            if terminated or truncated:
                _show(env, observation, info, args.frames)
                end = "success" if info["success"] else ("turn limit or game limit" if truncated else "failed")
                print(f"end of episode: {end}, score {info['score']:g}, {info['turn']} turns")
                break
    env.close()
    return 0


def _ask(turn: int, max_turns: int) -> str | None:
    prompt = f"[{turn + 1}/{max_turns}] action> "
    try:
        line = input(prompt if sys.stdin.isatty() else "")
    except EOFError:
        return None
    if not sys.stdin.isatty():
        print(f"{prompt}{line}")
    return line


def _show(env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], frames: Path | None) -> None:
    text = observation["text"] if isinstance(observation, dict) else observation
    print(f"\n{text}\nstate {info['state_key'][:8]}")
    if frames is not None:
        from PIL import Image

        frame: Any = env.render()
        path = frames / f"turn_{info['turn']:03d}.png"
        Image.fromarray(np.asarray(frame)).save(path)
        print(f"frame {path}")
