"""The ``agent-envs`` command: one module per sub-command, imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import gymnasium as gym

from agent_envs.errors import AgentEnvsError, did_you_mean

COMMANDS = {
    "list": "list the environments",
    "play": "play an environment in the terminal",
    "check": "run the conformance kit on an environment",
    "doctor": "say what is installed and play a winning walk in every environment",
    "train": "train a policy with a recipe",
    "eval": "score a recipe's warm start or a checkpoint on its fixed panel",
    "retriever": "serve, build or query a passage retriever",
    "webshop": "open the WebShop in a browser, and record visits",
    "data": "find, fetch and check the data files of an environment",
    "appworld": "install AppWorld in an environment of its own and check it",
}


class _Parser(argparse.ArgumentParser):
    """Argument parser that suggests the closest sub-command."""

    def error(self, message: str) -> None:  # type: ignore[override]  # argparse declares NoReturn: exit() leaves
        if "invalid choice" in message:
            wrong = message.split("invalid choice:")[1].split("'")[1]
            message += did_you_mean(wrong, COMMANDS)
        super().error(message)


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; only the arguments of ``command`` are filled in."""
    parser = _Parser(prog="agent-envs", description="Group-aware environments for multi-turn LLM agents.")
    parser.add_argument("--version", action="version", version=f"agent-envs {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        sub = subparsers.add_parser(name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == command:
            module = importlib.import_module(f"agent_envs.cli.commands.{name}")
            sub.description, sub.epilog = module.__doc__, module.EXAMPLES
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def _version() -> str:
    from agent_envs import __version__

    return __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0 good, 1 a finding, 2 a wrong argument)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does: your own environments lie in the current folder
    command = next((word for word in arguments if not word.startswith("-")), None)
    args = build_parser(command).parse_args(arguments)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except (ValueError, TypeError, FileNotFoundError, AgentEnvsError, gym.error.Error) as error:
        print(f"agent-envs {args.command}: {error}", file=sys.stderr)
        return 2
