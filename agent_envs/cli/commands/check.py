"""Run the conformance kit on an environment: Gymnasium's check_env, key soundness, determinism, groups, snapshots."""

from __future__ import annotations

import argparse

import gymnasium as gym

from agent_envs.check import Subject, run_checks
from agent_envs.cli.common import import_module, parse_kwargs, resolve_id
from agent_envs.registration import load_class

EXAMPLES = """examples:
  agent-envs check agent_envs/Sokoban-v0
  agent-envs check EZPoints obs_mode=text
  agent-envs check my_lab.envs:my_lab/Maze-v0               your own environment
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``check``."""
    parser.add_argument("env_id", metavar="ID", help="environment id; the namespace and -v0 may be left out")
    parser.add_argument("kwargs", metavar="key=value", nargs="*", help="keyword arguments of the environment")
    parser.add_argument("--group-size", type=int, default=4, help="members of the tested groups (default 4)")
    parser.add_argument("--import", dest="module", help="module to import first: it registers your id")


def run(args: argparse.Namespace) -> int:
    """Print a line per check; exit status 1 if one failed."""
    if args.module:
        import_module(args.module)
    if args.group_size < 2:
        raise ValueError(f"--group-size must be >= 2, got {args.group_size}.")
    subject = Subject(env_id=resolve_id(args.env_id), kwargs=parse_kwargs(args.kwargs), group_size=args.group_size)
    missing = None if subject.kwargs else load_class(str(gym.spec(subject.env_id).kwargs["env_class"])).unavailable()
    if missing:
        print(f"{subject.env_id} cannot be checked here: {missing}")
        return 1
    failed = total = 0
    for result in run_checks(subject):
        print(
            f"{'ok  ' if result.ok else 'FAIL'}  {result.name}{f': {result.detail}' if result.detail else ''}",
            flush=True,
        )
        total, failed = total + 1, failed + (not result.ok)
    print(f"{subject.env_id}: {total - failed} of {total} checks passed")
    return 1 if failed else 0
