"""The command: compose a recipe, check it, prepare what it needs, and hand over to verl."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs.errors import AgentEnvsError
from agent_envs.trainers.verl.config import (
    check_config,
    check_environment,
    compose,
    recipe_names,
    sections,
)

USAGE = """usage: python -m agent_envs.trainers.verl RECIPE [key=value ...]

Train a recipe on verl's trainer. RECIPE is the name of a bundled recipe or a YAML file; key=value are hydra overrides,
such as trainer.total_training_steps=10, agent_envs.seed=1 or
+actor_rollout_ref.rollout.engine_kwargs.vllm.seed=0.

  --list          list the bundled recipes
  --show          print the composed configuration and train nothing
"""
_CPU_ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "OMP_NUM_THREADS": "1",
    "RAY_DEDUP_LOGS": "0",
    "TOKENIZERS_PARALLELISM": "false",
}


def run(recipe: str | Path, overrides: Sequence[str] = ()) -> None:
    """Train a recipe with verl; returns when the run is over.

    Args:
        recipe: Name of a bundled recipe or path of a YAML file.
        overrides: Hydra overrides.

    Raises:
        DependencyNotInstalled: If a part of the verl extra is missing.
        ValueError: For settings that do not go together.
        RuntimeError: If the CPU backend did not register.
    """
    config = prepare(recipe, overrides)
    import ray
    from verl.trainer.main_ppo import run_ppo

    from agent_envs.trainers.verl.trainer import TaskRunner

    started_here = not ray.is_initialized()
    try:
        run_ppo(config, task_runner_class=TaskRunner)
    finally:
        if started_here:
            ray.shutdown()


def show(recipe: str | Path, overrides: Sequence[str] = ()) -> str:
    """Return the composed configuration as YAML; nothing is checked against the machine."""
    from omegaconf import OmegaConf

    text: str = OmegaConf.to_yaml(compose(recipe, overrides), resolve=False)
    return text


def prepare(recipe: str | Path, overrides: Sequence[str] = ()) -> Any:
    """Return the checked configuration, with paths filled in and a tiny model built if the recipe asks for one."""
    config = compose(recipe, overrides)
    if config.trainer.device == "cpu":
        use_cpu()
    check_config(config)
    section, options = sections(config)
    check_environment(section, options)
    cache = Path(config.trainer.default_local_dir).resolve().parent / "warm_starts"
    if options.tiny_model is not None:
        from agent_envs.trainers.verl.cpu.models import make_tiny_model

        config.actor_rollout_ref.model.path = str(make_tiny_model(section, options.tiny_model, cache))
    elif options.random_model is not None:
        from agent_envs.trainers.verl.cpu.models import make_random_model

        config.actor_rollout_ref.model.path = str(make_random_model(options.random_model, cache))
    return config


def use_cpu() -> None:
    """Switch this process, and the ones Ray starts from it, to the CPU backend.

    Raises:
        RuntimeError: If verl was imported for another platform, or the plug-in does not load.
    """
    for name, value in _CPU_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if os.environ["VERL_PLATFORM"] != "cpu":
        raise RuntimeError(f"trainer.device=cpu, but VERL_PLATFORM={os.environ['VERL_PLATFORM']}; unset it.")
    from agent_envs.trainers.verl.cpu import is_registered, register, vision

    vision.define_missing_operators()  # before verl imports transformers' models
    import verl
    from verl.plugin.platform import get_platform

    if not is_registered():
        # verl swallows errors of plug-ins. The driver can still register; workers load the plug-in by themselves.
        register()
    if get_platform().device_name != "cpu":
        raise RuntimeError(
            f"verl {verl.__version__} was imported before VERL_PLATFORM=cpu was set; set it in the shell, or start a "
            "new process."
        )
    _check_plugin()


def _check_plugin() -> None:
    from importlib.metadata import entry_points

    if not any(point.value == "agent_envs.trainers.verl.plugin" for point in entry_points(group="verl.plugins")):
        raise RuntimeError(
            "The plug-in of agent_envs is not installed for verl's workers: install the package again "
            "(pip install agent-envs), so that its entry point of the group verl.plugins exists."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--list" in words:
        print("\n".join(recipe_names()))
        return 0
    if not words or "-h" in words or "--help" in words:
        print(USAGE)
        return 0 if words else 2
    recipe, *overrides = [word for word in words if word != "--show"]
    try:
        if "--show" in words:
            print(show(recipe, overrides))
        else:
            run(recipe, overrides)
    except (ValueError, TypeError, ImportError, RuntimeError, AgentEnvsError) as error:
        print(f"agent_envs.trainers.verl: {error}", file=sys.stderr)
        return 2
    return 0
