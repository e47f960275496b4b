"""List the registered environments: id, turn limit, tasks per split, what they are."""

from __future__ import annotations

import argparse
import json
from typing import Any

import gymnasium as gym

from agent_envs.core import AgentEnv
from agent_envs.registration import load_class, registered_ids

EXAMPLES = """examples:
  agent-envs list
  agent-envs list --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``list``."""
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    rows = [_describe(env_id) for env_id in registered_ids()]
    if args.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    width = max(len(row["id"]) for row in rows)
    print(f"{'id':<{width}}  turns  tasks")
    for row in rows:
        tasks = ", ".join(f"{split} {count:,}" for split, count in row["tasks"].items())
        print(f"{row['id']:<{width}}  {row['max_turns']:>5}  {tasks}")
        print(f"{'':<{width}}         {row['description']}")
        if row["unavailable"]:
            print(f"{'':<{width}}         not here: {row['unavailable']}")
    return 0


def _describe(env_id: str) -> dict[str, Any]:
    spec = gym.spec(env_id)
    cls: type[AgentEnv] = load_class(str(spec.kwargs["env_class"]))
    tasks = {split: size for split, size in cls.SPLITS.items() if not isinstance(size, str)}
    return {
        "id": env_id,
        "max_turns": spec.kwargs["max_turns"],
        "tasks": tasks,
        "unavailable": cls.unavailable() or "",
        "description": (cls.__doc__ or "").strip().splitlines()[0],
    }
