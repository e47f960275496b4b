"""Say what is installed, and play a scripted winning walk in every environment."""

from __future__ import annotations

import argparse
import importlib.util

import gymnasium as gym

from agent_envs.core import AgentEnv
from agent_envs.registration import load_class, registered_ids

EXAMPLES = """examples:
  agent-envs doctor
"""

_EXTRAS = {
    "train": ("torch", "transformers", "tokenizers", "safetensors", "yaml", "rich", "matplotlib"),
    "alfworld": ("alfworld", "textworld"),
    "webshop": ("flask",),
    "retriever": ("faiss", "sentence_transformers", "flask", "waitress"),
    "verl": ("verl", "transfer_queue"),
}
_MAX_TRIES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Doctor has no options."""


def run(args: argparse.Namespace) -> int:
    """Print the extras and the walks; exit status 1 if a walk does not win."""
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        state = f'missing {", ".join(missing)}: pip install "agent-envs[{extra}]"' if missing else "installed"
        print(f"extra {extra:<10} {state}")
    failed = 0
    for env_id in registered_ids():
        why = load_class(str(gym.spec(env_id).kwargs["env_class"])).unavailable()
        if why:
            print(f"none  {env_id}: {why}")
            continue
        problem = _play(env_id)
        failed += bool(problem)
        print(f"{'FAIL' if problem else 'ok  '}  {env_id}{f': {problem}' if problem else ''}")
    return 1 if failed else 0


def _play(env_id: str) -> str:
    """Return an empty string if a winning walk won, else what went wrong."""
    try:
        env = gym.make(env_id).unwrapped
        assert isinstance(env, AgentEnv)
        for index in range(_MAX_TRIES):
            env.reset(seed=0, options={"split": "test", "task_index": index % env.num_tasks("test")})
            actions = env.example_actions()
            if not actions or len(actions) > env.max_turns:
                continue
            for action in actions:
                info = env.step(action)[4]
            if info["success"]:
                return ""
    except Exception as error:  # noqa: BLE001 - a broken install is what doctor reports
        return f"{type(error).__name__}: {error}"
    return "no winning walk succeeded"
