"""Score a checkpoint, a run folder or a recipe's warm start on the recipe's fixed panel, each task once."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """examples:
  agent-envs eval runs/ezpoints_tiny_gigpo                     the last checkpoint of a run
  agent-envs eval ezpoints_tiny_gigpo                          the recipe's model before training
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``eval``."""
    parser.add_argument("target", metavar="RECIPE|CHECKPOINT", help="recipe name, YAML file, run folder or checkpoint")
    parser.add_argument("overrides", metavar="key=value", nargs="*", help="overrides of a recipe")


def run(args: argparse.Namespace) -> int:
    """Print success, score and return with their interval."""
    path = Path(args.target)
    if "/" in args.target and not path.exists():
        raise ValueError(f"{path} does not exist. Train it first: agent-envs train RECIPE --out {path}")
    from agent_envs.trainers.recipe import load_recipe

    recipe = None if path.is_dir() else load_recipe(args.target, overrides=args.overrides)
    from agent_envs.trainers.local.train import evaluate_checkpoint, evaluate_recipe

    if recipe is None:
        if args.overrides:
            raise ValueError("A checkpoint carries its recipe: overrides are for recipes only.")
        result = evaluate_checkpoint(path)
    else:
        result = evaluate_recipe(recipe)
    print(result.summary())
    return 0
