"""Registration of ids, and the entry points behind ``gym.make`` and ``gym.make_vec``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym

if TYPE_CHECKING:
    from agent_envs.core import AgentEnv
    from agent_envs.groups import GroupVectorEnv

NAMESPACE = "agent_envs"


def load_class(path: str) -> type[AgentEnv]:
    """Return the class at ``"module:Class"``."""
    module, _, name = path.partition(":")
    return cast("type[AgentEnv]", getattr(importlib.import_module(module), name))


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvFactory:
    """Builds one member; plain data, so that it reaches spawned workers."""

    env_class: str
    """``"module:Class"`` of the environment."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    memory: str | None = None
    """Memory by name or dotted path; None leaves observations raw."""
    memory_kwargs: Mapping[str, Any] | None = None

    def __call__(self) -> gym.Env[Any, str]:
        """Return a new environment, wrapped in its memory if one is named."""
        env: gym.Env[Any, str] = load_class(self.env_class)(**self.kwargs)
        if self.memory is None:
            return env
        wrapper = importlib.import_module("agent_envs.memory.wrapper")
        return cast("gym.Env[Any, str]", wrapper.MemoryObservation(env, self.memory, **dict(self.memory_kwargs or {})))


def _factory(
    env_class: str, memory: str | None, memory_kwargs: Mapping[str, Any] | None, kwargs: Mapping[str, Any]
) -> EnvFactory:
    if memory is None and memory_kwargs:
        raise ValueError(f"memory_kwargs={dict(memory_kwargs)!r} needs memory=, for example memory='window'.")
    return EnvFactory(env_class=env_class, kwargs=dict(kwargs), memory=memory, memory_kwargs=memory_kwargs)


def group_settings(env_class: str, kwargs: Mapping[str, Any], **chosen: Any) -> dict[str, Any]:
    """Return executor and time limits: those that are chosen, else the environment's own.

    Args:
        env_class: ``"module:Class"`` of the environment.
        kwargs: Keyword arguments of the environment.
        **chosen: ``executor``, ``reset_timeout_s``, ``step_timeout_s``; None leaves the choice to the environment.
    """
    return chosen | load_class(env_class).group_defaults(kwargs) | {k: v for k, v in chosen.items() if v is not None}


def make_env(
    *,
    env_class: str,
    group_size: int = 1,
    executor: str | None = None,
    num_workers: int | None = None,
    memory: str | None = None,
    memory_kwargs: Mapping[str, Any] | None = None,
    reset_timeout_s: float | None = None,
    step_timeout_s: float | None = None,
    **kwargs: Any,
) -> gym.Env[Any, Any]:
    """Entry point of ``gym.make``: one environment, or a joint :class:`~agent_envs.groups.GroupEnv` over a group.

    Args:
        env_class: ``"module:Class"``, set by :func:`register_env`.
        group_size: Members; 1 gives the plain environment.
        executor: ``"serial"``, ``"threads"`` or ``"processes"``; None for the environment's own. Used for groups only.
        num_workers: Workers of the executor, None for its default.
        memory: Name or dotted path of a memory that each member's observations pass through.
        memory_kwargs: Keyword arguments of the memory.
        reset_timeout_s: Seconds one member's reset may take, None for the environment's own limit, which most do not
            have; used for groups only.
        step_timeout_s: The same for one member's step.
        **kwargs: Keyword arguments of the environment.
    """
    if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1:
        raise ValueError(f"group_size must be an int >= 1, got {group_size!r}.")
    factory = _factory(env_class, memory, memory_kwargs, kwargs)
    if group_size == 1:
        return factory()
    from agent_envs.groups import GroupEnv, GroupVectorEnv

    vector = GroupVectorEnv(
        factory,
        num_envs=group_size,
        group_size=group_size,
        num_workers=num_workers,
        **group_settings(
            env_class, kwargs, executor=executor, reset_timeout_s=reset_timeout_s, step_timeout_s=step_timeout_s
        ),
    )
    joint: gym.Env[Any, Any] = GroupEnv(vector)
    return joint


def make_vec_env(
    *,
    env_class: str,
    num_envs: int = 1,
    group_size: int = 1,
    executor: str | None = None,
    num_workers: int | None = None,
    memory: str | None = None,
    memory_kwargs: Mapping[str, Any] | None = None,
    reset_timeout_s: float | None = None,
    step_timeout_s: float | None = None,
    **kwargs: Any,
) -> GroupVectorEnv:
    """Entry point of ``gym.make_vec``: ``num_envs // group_size`` groups in one flat batch.

    Args:
        env_class: ``"module:Class"``, set by :func:`register_env`.
        num_envs: Members of all groups together (B).
        group_size: Members of one group (N).
        executor: ``"serial"``, ``"threads"`` or ``"processes"``; None for the environment's own.
        num_workers: Workers of the executor, None for its default.
        memory: Name or dotted path of a memory.
        memory_kwargs: Keyword arguments of the memory.
        reset_timeout_s: Seconds one reset may take, None for the environment's own limit, which most do not have.
        step_timeout_s: The same for one step.
        **kwargs: Keyword arguments of the environment.
    """
    from agent_envs.groups import GroupVectorEnv

    return GroupVectorEnv(
        _factory(env_class, memory, memory_kwargs, kwargs),
        num_envs=num_envs,
        group_size=group_size,
        num_workers=num_workers,
        **group_settings(
            env_class, kwargs, executor=executor, reset_timeout_s=reset_timeout_s, step_timeout_s=step_timeout_s
        ),
    )


def register_env(env_id: str, env_class: str, *, max_turns: int, executor: str | None = None, **kwargs: Any) -> None:
    """Register an environment with Gymnasium; calling it twice is harmless.

    Args:
        env_id: ``"agent_envs/Name-v0"``, or an id of your own namespace.
        env_class: ``"module:Class"`` of a subclass of :class:`~agent_envs.core.AgentEnv`, imported on first use.
        max_turns: Default turn limit.
        executor: Default executor of groups; None for the environment's own
            (:meth:`~agent_envs.core.AgentEnv.group_defaults`).
        **kwargs: Further default keyword arguments, JSON values only.
    """
    if env_id in gym.registry:
        return
    own = {"executor": executor} if executor else {}
    gym.register(
        id=env_id,
        entry_point="agent_envs.registration:make_env",
        vector_entry_point="agent_envs.registration:make_vec_env",
        kwargs={"env_class": env_class, "max_turns": max_turns, **own, **kwargs},
    )


def registered_ids() -> list[str]:
    """Return the ids that :func:`register_env` registered, sorted."""
    return sorted(env_id for env_id, spec in gym.registry.items() if "env_class" in spec.kwargs)
