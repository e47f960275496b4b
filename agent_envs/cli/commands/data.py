"""Find, fetch and check the data files of an environment."""

from __future__ import annotations

import argparse
import importlib

EXAMPLES = """examples:
  agent-envs data alfworld --path DIR
  agent-envs data alfworld --download --path DIR
  agent-envs data webshop --download --path DIR
  agent-envs data alfworld --help
"""

# Name of the environment's package, which has a module `data` with EXAMPLES, add_arguments and run, as commands have.
SOURCES = {"alfworld": "the official ALFWorld games", "webshop": "the official WebShop products"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one sub-command per environment with data files."""
    names = parser.add_subparsers(dest="source", metavar="ENVIRONMENT", required=True)
    for name, text in SOURCES.items():
        module = importlib.import_module(f"agent_envs.envs.{name}.data")
        sub = names.add_parser(
            name,
            help=text,
            description=f"Find, fetch and check {text}.",
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run_source=module.run)


def run(args: argparse.Namespace) -> int:
    """Run the environment's own command."""
    return int(args.run_source(args))
