"""Train a policy with a recipe: a bundled name or a YAML file, and key=value overrides."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """examples:
  agent-envs train --list                                         the bundled recipes
  agent-envs train ezpoints_tiny_gigpo
  agent-envs train ezpoints_tiny_gigpo agent_envs.seed=1 local.iterations=20 --out runs/seed1
  agent-envs train my_recipe.yaml --out runs/mine
  agent-envs train my_recipe.yaml --out runs/mine --resume        go on after Ctrl-C
  agent-envs train alfworld_gigpo_qwen2.5-1.5b --backend verl     on GPUs, with verl's trainer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``train``."""
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="name of a bundled recipe, or a YAML file")
    parser.add_argument("overrides", metavar="key=value", nargs="*", help="overrides, such as agent_envs.gamma=0.9")
    parser.add_argument(
        "--backend",
        choices=("local", "verl"),
        default="local",
        help="local: one process, text models (default). verl: verl's trainer, with recipes and overrides of its own",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder (default: runs/RECIPE)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the run folder")
    parser.add_argument("--list", action="store_true", help="list the bundled recipes")
    parser.add_argument("--show", action="store_true", help="print the recipe with every value, train nothing")


def run(args: argparse.Namespace) -> int:
    """Train; exit status 0."""
    if args.backend == "verl":
        return _run_verl(args)
    from agent_envs.trainers.recipe import bundled_files, load_recipe, recipe_names

    if args.list:
        print("\n".join([*recipe_names(), "", "More with --backend verl --list."]))
        return 0
    if not args.recipe:
        raise ValueError("Name a recipe, for example: agent-envs train ezpoints_tiny_gigpo (--list shows all).")
    if args.recipe not in recipe_names() and (Path("verl") / f"{args.recipe}.yaml").as_posix() in bundled_files():
        raise ValueError(f"{args.recipe} is a recipe for verl: add --backend verl.")
    recipe = load_recipe(args.recipe, overrides=args.overrides)
    if args.show:
        print(recipe.to_yaml(), end="")
        return 0
    from agent_envs.trainers.local.train import train

    train(recipe, args.out or Path("runs") / Path(args.recipe).stem, resume=args.resume)
    return 0


def _run_verl(args: argparse.Namespace) -> int:
    from agent_envs.trainers import verl

    if args.list:
        print("\n".join(verl.recipe_names()))
        return 0
    if not args.recipe:
        raise ValueError("Name a recipe, for example cpu_ezpoints_gigpo (--backend verl --list shows all).")
    overrides = list(args.overrides)
    if args.show:
        print(verl.show(args.recipe, overrides))
        return 0
    if args.out is not None:
        overrides.append(f"trainer.default_local_dir={args.out}")
    if args.resume:
        overrides.append("trainer.resume_mode=auto")
    verl.run(args.recipe, overrides)
    return 0
