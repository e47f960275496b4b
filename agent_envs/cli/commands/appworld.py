"""Set up AppWorld in a virtual environment of its own, and check that its worlds run."""

from __future__ import annotations

import argparse
import sys

from gymnasium.error import DependencyNotInstalled

from agent_envs.errors import AgentEnvsError

EXAMPLES = """examples:
  agent-envs appworld install                          AppWorld and the mini world, 3 minutes, 250 MB
  agent-envs appworld install --official               the benchmark's data too
  agent-envs appworld install --python python3.12      another interpreter, 3.11 or newer
  agent-envs appworld doctor                           what is there, what confines worlds, does a solution pass
  agent-envs appworld doctor --all                     every solution of the mini world
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``appworld``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    install = actions.add_parser("install", help="install AppWorld and build the mini world")
    install.add_argument("--python", default=sys.executable, help="interpreter to build the environment with")
    install.add_argument("--official", action="store_true", help="fetch the official data too")
    install.add_argument("--force", action="store_true", help="start over")
    doctor = actions.add_parser("doctor", help="say what is installed and play a solution")
    doctor.add_argument("--all", action="store_true", help="play every solution of the mini world")


def run(args: argparse.Namespace) -> int:
    """Run the action; exit status 1 if the doctor finds something."""
    return _install(args) if args.action == "install" else _doctor(play_all=args.all)


def _install(args: argparse.Namespace) -> int:
    from agent_envs.envs.appworld.install import download_official, install
    from agent_envs.envs.appworld.paths import default_install

    target = default_install()
    install(target, python=args.python, force=args.force)
    if args.official:
        download_official(target)
    print(f"AppWorld is installed in {target.folder}")
    return 0


def _doctor(*, play_all: bool) -> int:
    from agent_envs.envs.appworld.paths import find_data, find_python
    from agent_envs.envs.appworld.tasks import load_tasks

    for label, look in (("interpreter", find_python), ("mini world", lambda: find_data("mini"))):
        try:
            found = look()
        except DependencyNotInstalled as error:
            print(f"FAIL  {label}: {error}")
            return 1
        print(f"ok    {label}: {found}")
    try:
        official = load_tasks(find_data("official"))
        counts = ", ".join(f"{name} {len(ids)}" for name, ids in official.ids.items())
        print(f"ok    official data: {official.folder}: {counts}")
    except (DependencyNotInstalled, FileNotFoundError) as error:
        print(f"none  official data: {error}")
    try:
        return _play(play_all=play_all)
    except AgentEnvsError as error:
        print(f"FAIL  world: {error}")
        return 1


def _play(*, play_all: bool) -> int:
    """Play solutions, and the empty solution, which must fail; return the exit status."""
    from agent_envs.envs.appworld.env import AppWorldEnv
    from agent_envs.envs.appworld.pool import borrow_pool
    from agent_envs.envs.appworld.server.sandbox import LAYERS

    env = AppWorldEnv()
    env.reset(options={"task_index": 0})
    pool = borrow_pool(env.pool_config())
    print(f"ok    server: warm after {pool.warm_up_s:.1f} s")
    print(f"ok    sandbox: {', '.join(pool.layers)}")
    missing = [name for name in LAYERS if not any(layer.split()[0] == name for layer in pool.layers)]
    if missing:
        print(f"weak  sandbox: not here: {', '.join(missing)}")
    failed = played = 0
    for split in ("train", "dev", "test"):
        for index in range(env.num_tasks(split) if play_all else 1):
            outcomes = []
            for solve in (True, False):
                env.reset(options={"split": split, "task_index": index})
                cells = env.example_actions() if solve else ["apis.supervisor.complete_task()"]
                outcomes.append([env.step(cell) for cell in cells][-1][4]["success"])
            played += 1
            if outcomes != [True, False]:
                failed += 1
                print(
                    f"FAIL  {split}/{env.task_name(split, index)}: solution {outcomes[0]}, nothing done {outcomes[1]}"
                )
    env.close()
    print(
        f"{'FAIL' if failed else 'ok  '}  {played - failed} of {played} tasks: the solution passes, doing nothing fails"
    )
    return 1 if failed else 0
