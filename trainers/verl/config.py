"""Recipes of the verl backend: hydra files on top of verl's own configuration, composed and checked.

A recipe has the ``agent_envs:`` section of every backend, a ``verl:`` section (:class:`VerlSection`) and verl's keys.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from agent_envs.errors import unknown_name
from agent_envs.memory.registry import memory_path
from agent_envs.trainers.advantages import EstimatorConfig, get_estimator
from agent_envs.trainers.recipe import AgentEnvsSection, build_section
from agent_envs.trainers.verl.requirements import check_verl

ESTIMATOR = "agent_envs"
"""Value of verl's ``algorithm.adv_estimator``; which estimator it runs is ``agent_envs.estimator``."""
# Estimators that need no second member to compare with.
_WITHOUT_GROUP = ("reinforce_pp", "gae")
_TRAINER_MODES = ("sync", "colocate_async")
_FILTER_METRICS = ("reward", "outcome")


@dataclass(frozen=True, kw_only=True)
class VerlSection:
    """The ``verl:`` section: what this backend asks beyond ``agent_envs:`` and verl's own keys."""

    estimator_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further options of :class:`~agent_envs.trainers.advantages.EstimatorConfig`, such as ``{lam: 1.0}``."""
    max_turn_tokens: int | None = None
    """Longest reply of one turn in a concatenated conversation; null leaves each what is left of the whole."""
    executor: Literal["serial", "threads", "processes"] | None = None
    """Where an agent-loop worker runs its environments; null takes the environment's registered executor."""
    num_workers: int | None = None
    """Threads or processes of that executor per agent-loop worker; null takes 128 threads or one process per core."""
    reset_timeout_s: float | None = None
    """Seconds one reset may take; null sets no limit."""
    step_timeout_s: float | None = None
    """Seconds one step may take; null sets no limit."""
    tiny_model: Mapping[str, Any] | None = None
    """Build a small model before the run, with these keys of the local trainer's ``local:`` section (size, cloning on
    oracle walks), and train it; null takes ``actor_rollout_ref.model.path``."""
    random_model: Literal["qwen2", "qwen2.5-vl"] | None = None
    """Or write a small model with random weights, to try an installation."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("max_turn_tokens", "num_workers", "reset_timeout_s", "step_timeout_s"):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise ValueError(f"verl.{key} must be positive or null, got {value!r}.")
        if self.tiny_model is not None and self.random_model is not None:
            raise ValueError("verl.tiny_model and verl.random_model both name the model to make; leave one null.")


def recipe_dir() -> Path:
    """Return the folder of the bundled verl recipes."""
    return Path(str(importlib.resources.files("agent_envs.trainers") / "recipes" / "verl"))


def recipe_names() -> list[str]:
    """Return the names of the bundled recipes."""
    return sorted(path.stem for path in recipe_dir().glob("*.yaml") if path.stem[0] != "_")


def compose(recipe: str | Path, overrides: Sequence[str] = ()) -> Any:
    """Compose a recipe on verl's configuration and spell out both sections; nothing is checked against the machine.

    Args:
        recipe: Name of a bundled recipe, or path of a YAML file whose ``defaults:`` may name bundled ones.
        overrides: Hydra overrides, such as ``trainer.total_training_steps=10``; a key that the composed configuration
            lacks is written ``+key=value``, unless it is one of our own two sections.

    Returns:
        The configuration, an omegaconf ``DictConfig``.

    Raises:
        ValueError: For an unknown recipe or a bad value in one of the sections.
    """
    check_verl()
    import hydra
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf, open_dict

    path = Path(recipe)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ValueError(f"Recipe file {path} does not exist. Bundled recipes: {', '.join(recipe_names())}.")
        folder, name = path.resolve().parent, path.stem
    elif str(recipe) in recipe_names():
        folder, name = recipe_dir(), str(recipe)
    else:
        raise unknown_name("verl recipe", str(recipe), recipe_names())
    search = f"hydra.searchpath=[file://{recipe_dir()},pkg://verl.trainer.config]"
    # Keys of our own sections may be left out of a recipe; whether they exist is checked below, with suggestions.
    words = [f"++{word}" if word.startswith(("agent_envs.", "verl.")) else word for word in overrides]
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(config_dir=str(folder), version_base=None):
            config = hydra.compose(name, overrides=[search, *words])
    except HydraException as error:
        raise ValueError(f"Recipe {name} does not compose: {error}") from None
    with open_dict(config):
        for key, kind in (("agent_envs", AgentEnvsSection), ("verl", VerlSection)):
            values = OmegaConf.to_container(config.get(key) or OmegaConf.create({}), resolve=True)
            section: Any = build_section(kind, values, key)
            config[key] = dataclasses.asdict(section)
        if config.trainer.experiment_name is None:
            config.trainer.experiment_name = name
        agent = config.actor_rollout_ref.rollout.agent
        if agent.agent_loop_config_path is None:
            agent.agent_loop_config_path = str(Path(__file__).with_name("agent_loops.yaml"))
    return config


def sections(config: Any) -> tuple[AgentEnvsSection, VerlSection]:
    """Return both sections of a composed configuration."""
    from omegaconf import OmegaConf

    plain = {key: OmegaConf.to_container(config[key], resolve=True) for key in ("agent_envs", "verl")}
    return (
        build_section(AgentEnvsSection, plain["agent_envs"], "agent_envs"),
        build_section(VerlSection, plain["verl"], "verl"),
    )


def estimator_config(section: AgentEnvsSection, options: VerlSection) -> EstimatorConfig:
    """Return the estimator's options of a recipe.

    Raises:
        ValueError: If ``verl.estimator_kwargs`` repeats a key of ``agent_envs:`` or names none of the estimator's.
    """
    own: dict[str, Any] = {
        "norm": section.norm,
        "penalty": section.penalty_mode,
        "penalty_coef": section.penalty,
        "gamma": section.gamma,
        "w": section.w,
    }
    known = sorted({item.name for item in dataclasses.fields(EstimatorConfig)} - set(own))
    for key in options.estimator_kwargs:
        if key not in known:
            raise unknown_name("key in verl.estimator_kwargs", key, known)
    return EstimatorConfig(**own, **options.estimator_kwargs)


def check_config(config: Any) -> None:
    """Check a composed configuration; whether the environment is installed is not looked at.

    Raises:
        ValueError: For settings that do not go together; the text says what to change.
    """
    from verl.trainer.ppo.utils import need_reference_policy
    from verl.utils.config import validate_config

    section, options = sections(config)
    _check_algorithm(config, section, options)
    _check_rollout(config, section, options)
    _check_batches(config, section)
    # Not the critic's section: verl would load the model's configuration, perhaps over the network.
    validate_config(config, need_reference_policy(config), use_critic=False)


def _check_algorithm(config: Any, section: AgentEnvsSection, options: VerlSection) -> None:
    get_estimator(section.estimator)
    estimator_config(section, options)
    if config.algorithm.adv_estimator != ESTIMATOR:
        raise ValueError(
            f"algorithm.adv_estimator must stay {ESTIMATOR!r}, got {config.algorithm.adv_estimator!r}; the "
            "estimator is named by agent_envs.estimator."
        )
    if config.algorithm.use_kl_in_reward:
        raise ValueError(
            "algorithm.use_kl_in_reward=True does not reach the estimators: they read the rewards of turns, not of "
            "tokens. Use actor_rollout_ref.actor.use_kl_loss=True."
        )
    if section.group_size == 1 and section.estimator not in _WITHOUT_GROUP:
        raise ValueError(
            f"Estimator {section.estimator!r} compares the members of a group, but agent_envs.group_size is 1. "
            "Use group_size >= 2, for example 8."
        )
    if (section.estimator == "gae") != bool(config.critic.enable):
        raise ValueError(
            f"agent_envs.estimator={section.estimator!r} needs critic.enable={section.estimator == 'gae'}, got "
            f"{config.critic.enable!r}."
        )
    filters = config.algorithm.filter_groups
    if filters.enable and filters.metric not in _FILTER_METRICS:
        raise unknown_name("algorithm.filter_groups.metric", filters.metric, _FILTER_METRICS)
    if config.trainer.v1.trainer_mode not in _TRAINER_MODES:
        raise unknown_name("trainer.v1.trainer_mode", config.trainer.v1.trainer_mode, _TRAINER_MODES)


def _check_rollout(config: Any, section: AgentEnvsSection, options: VerlSection) -> None:
    memory_path(section.memory)
    rollout = config.actor_rollout_ref.rollout
    if rollout.n != section.group_size or config.data.train_batch_size != section.num_groups:
        raise ValueError(
            f"actor_rollout_ref.rollout.n={rollout.n} and data.train_batch_size={config.data.train_batch_size} must be "
            f"agent_envs.group_size={section.group_size} and agent_envs.num_groups={section.num_groups}: change those."
        )
    if config.trainer.total_training_steps is None:
        raise ValueError("trainer.total_training_steps is missing: tasks are drawn without end, so epochs have none.")
    images = section.env_kwargs.get("obs_mode", "text") != "text"
    if images and not config.actor_rollout_ref.actor.use_dynamic_bsz:
        raise ValueError(
            "Images need actor_rollout_ref.actor.use_dynamic_bsz=True: verl cannot split the position ids of images "
            "into micro-batches of a fixed size."
        )
    if images and section.context == "concatenated":
        raise ValueError("agent_envs.context=concatenated takes text observations; use context=step for images.")
    if rollout.name == "hf_cpu" and (rollout.top_p != 1 or rollout.top_k > 0):
        raise ValueError("The CPU backend samples with a temperature only: leave rollout.top_p and top_k alone.")
    if options.max_turn_tokens is not None and section.context == "step":
        raise ValueError("verl.max_turn_tokens is for context=concatenated; max_response_length limits a turn.")


def _check_batches(config: Any, section: AgentEnvsSection) -> None:
    num_ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes
    roles = {"actor_rollout_ref.actor": config.actor_rollout_ref.actor}
    if config.critic.enable:
        roles["critic"] = config.critic
    for where, role in roles.items():
        ranks = max(1, num_ranks // role.get("ulysses_sequence_parallel_size", 1))
        rows = role.ppo_mini_batch_size * section.group_size
        if rows % ranks:
            raise ValueError(
                f"{where}: a mini-batch has ppo_mini_batch_size * group_size = {role.ppo_mini_batch_size} * "
                f"{section.group_size} = {rows} turns, which {ranks} data-parallel ranks do not divide."
            )
        micro = role.ppo_micro_batch_size_per_gpu
        if not role.use_dynamic_bsz and micro is not None and (rows // ranks) % micro:
            raise ValueError(
                f"{where}: {rows // ranks} turns of a mini-batch per rank are no multiple of "
                f"ppo_micro_batch_size_per_gpu={micro}. Change it or set use_dynamic_bsz=True."
            )


def check_environment(section: AgentEnvsSection, options: VerlSection) -> None:
    """Check that the environment is registered, may run where the recipe says, and its prompts fit the recipe.

    Raises:
        ValueError: For an unknown id or template (with the closest known name), or threads where they are not safe.
    """
    from agent_envs.prompts import PromptBuilder
    from agent_envs.registration import registered_ids

    if ":" not in section.env_id and section.env_id not in registered_ids():
        raise unknown_name("env_id", section.env_id, registered_ids())
    PromptBuilder.for_env(section.env_id, template=section.prompt, obs_mode=section.env_kwargs.get("obs_mode"))
    if options.executor == "threads":
        with contextlib.closing(gym.make(section.env_id, **section.env_kwargs)) as env:
            reason = getattr(env.unwrapped, "no_threads", "")
        if reason:
            raise ValueError(f"verl.executor=threads does not go with {section.env_id}: {reason} Leave it null.")
