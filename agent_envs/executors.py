"""Executors: where the members of a batch run. Serial, threads or processes, with equal trajectories."""

from __future__ import annotations

import contextlib
import math
import os
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from agent_envs.core import AgentEnv
from agent_envs.errors import unknown_name
from agent_envs.records import Status

EnvFactory = Callable[[], gym.Env[Any, Any]]
Transition = tuple[Any, float, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info; a reset has reward 0 and both flags False."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What happened to a member whose call did not return."""

    status: Status
    """One of the error statuses."""
    what: str = ""
    """Exception class and text, or what became of the worker."""
    overdue_s: float | None = None
    """The limit, in seconds, that the call went over."""
    trace: str = ""
    """Traceback of the original exception, for the log."""

    def text(self, call: str) -> str:
        """Return ``"<status>: <what>"`` for ``call``, for example ``"step of sokoban/train/5"``."""
        if self.overdue_s is not None:
            return f"{self.status}: {call} took over {self.overdue_s:g} s"
        return f"{self.status}: {self.what}"


Outcome = Transition | Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What a batch needs to know about its members; plain data, because it comes from workers."""

    name: str
    """Class name of the environment."""
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    metadata: dict[str, Any]
    splits: dict[str, int | str]
    split: str
    """Split of an episode whose reset names none."""


def failure_of(error: BaseException) -> Failure:
    """Turn an exception of an environment into data.

    An exception class may say what it means by a class attribute ``status`` that is one of the error statuses, for
    example ``status = Status.ERROR_SERVICE``. Without it, ``TimeoutError`` is ``error_timeout``, ``ConnectionError``
    is ``error_service`` and everything else ``error_env``.
    """
    status = getattr(error, "status", None)
    if not (isinstance(status, Status) and status.is_error()):
        status = Status.ERROR_ENV
        if isinstance(error, TimeoutError):
            status = Status.ERROR_TIMEOUT
        elif isinstance(error, ConnectionError):
            status = Status.ERROR_SERVICE
    trace = "".join(traceback.format_exception(error))
    return Failure(status=status, what=f"{type(error).__name__}: {error}", trace=trace)


class Member:
    """One environment and the rule that a broken one is rebuilt at the next reset."""

    def __init__(self, factory: EnvFactory) -> None:
        self._factory = factory
        self._env: gym.Env[Any, Any] | None = None

    def build(self) -> gym.Env[Any, Any]:
        """Return the environment, made now if there is none."""
        if self._env is None:
            self._env = self._factory()
        return self._env

    def describe(self) -> Description:
        """Return what the batch needs to know.

        Raises:
            TypeError: If the factory does not build an :class:`~agent_envs.core.AgentEnv`, wrapped or not.
        """
        env = self.build()
        base = env.unwrapped
        if not isinstance(base, AgentEnv):
            raise TypeError(f"env_factory must build an AgentEnv (wrapped or not), got {type(base).__name__}.")
        return Description(
            name=type(base).__name__,
            observation_space=env.observation_space,
            action_space=env.action_space,
            metadata=dict(env.metadata),
            splits=dict(base.splits()),
            split=base.split,
        )

    def fingerprint(self, split: str) -> str:
        """Return the digest of the split's task data."""
        base = self.build().unwrapped
        assert isinstance(base, AgentEnv)
        return base.fingerprint(split)

    def reset(self, seed: int, options: dict[str, Any]) -> Outcome:
        """Start an episode; an exception becomes a :class:`Failure`."""
        try:
            observation, info = self.build().reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            self.discard()
            return failure_of(error)
        return observation, 0.0, False, False, info

    def step(self, action: str) -> Outcome:
        """Play one turn; an exception or a reward that is not finite becomes a :class:`Failure`."""
        assert self._env is not None, "a row whose environment failed must idle until the next reset"
        try:
            observation, reward, terminated, truncated, info = self._env.step(action)
            value = float(reward)
            if not math.isfinite(value):
                raise ValueError(f"the reward {value} is not a finite number")
        except (Exception, SystemExit) as error:
            self.discard()
            return failure_of(error)
        return observation, value, bool(terminated), bool(truncated), info

    def discard(self) -> None:
        """Close the environment and forget it."""
        env, self._env = self._env, None
        if env is not None:
            # A broken environment may fail to close as well; the failure that is reported is the first one.
            with contextlib.suppress(Exception, SystemExit):
                env.close()


def call_member(member: Member, method: str, arguments: tuple[Any, ...], limit_s: float | None) -> Outcome:
    """Run ``member.reset`` or ``member.step``; a call that went over the limit is a failure even if it came back."""
    started = time.perf_counter()
    outcome: Outcome = getattr(member, method)(*arguments)
    if limit_s is not None and time.perf_counter() - started > limit_s:
        member.discard()
        return Failure(status=Status.ERROR_TIMEOUT, overdue_s=limit_s)
    return outcome


class Executor(ABC):
    """Runs resets and steps of rows; outcomes come back in the order of the rows given."""

    description: Description

    def __init__(self, *, reset_timeout_s: float | None, step_timeout_s: float | None) -> None:
        self._reset_timeout_s = reset_timeout_s
        self._step_timeout_s = step_timeout_s

    def reset_many(
        self, rows: Sequence[int], seeds: Sequence[int], options: Sequence[Mapping[str, Any]]
    ) -> list[Outcome]:
        """Start an episode in each of the rows; broken environments and workers are rebuilt first."""
        arguments = [(seed, dict(option)) for seed, option in zip(seeds, options, strict=True)]
        return self._run("reset", rows, arguments, self._reset_timeout_s)

    def step_many(self, rows: Sequence[int], actions: Sequence[str]) -> list[Outcome]:
        """Play one turn in each of the rows."""
        return self._run("step", rows, [(action,) for action in actions], self._step_timeout_s)

    @abstractmethod
    def _run(
        self, method: str, rows: Sequence[int], arguments: Sequence[tuple[Any, ...]], limit_s: float | None
    ) -> list[Outcome]: ...

    @abstractmethod
    def envs(self) -> list[gym.Env[Any, Any]]:
        """Return the environments in the order of their rows, where they live in this process."""

    @abstractmethod
    def fingerprint(self, split: str) -> str:
        """Return the digest of a split's task data, computed by one member."""

    @abstractmethod
    def close(self) -> None:
        """Close all environments and workers; calling it again is harmless."""


class SerialExecutor(Executor):
    """All members in the calling thread. It cannot interrupt a call: an overdue one fails after it came back."""

    def __init__(
        self, factory: EnvFactory, num_envs: int, *, reset_timeout_s: float | None, step_timeout_s: float | None
    ) -> None:
        super().__init__(reset_timeout_s=reset_timeout_s, step_timeout_s=step_timeout_s)
        self._members = build_members(factory, range(num_envs))
        self.description = self._members[0].describe()

    def _run(
        self, method: str, rows: Sequence[int], arguments: Sequence[tuple[Any, ...]], limit_s: float | None
    ) -> list[Outcome]:
        members = self._members
        return [call_member(members[row], method, args, limit_s) for row, args in zip(rows, arguments, strict=True)]

    def envs(self) -> list[gym.Env[Any, Any]]:
        """Return the environments in the order of their rows."""
        return [member.build() for member in self._members.values()]

    def fingerprint(self, split: str) -> str:
        """Return the digest of a split's task data."""
        return self._members[0].fingerprint(split)

    def close(self) -> None:
        """Close all environments."""
        for member in self._members.values():
            member.discard()


def build_members(factory: EnvFactory, rows: Sequence[int]) -> dict[int, Member]:
    """Return a built member per row; if one cannot be built, those before it are closed."""
    members = {row: Member(factory) for row in rows}
    try:
        for member in members.values():
            member.build()
    except BaseException:
        for member in members.values():
            member.discard()
        raise
    return members


def available_cores() -> int:
    """Return the number of CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_executor(
    name: str,
    factory: EnvFactory,
    *,
    num_groups: int,
    group_size: int,
    num_workers: int | None,
    reset_timeout_s: float | None,
    step_timeout_s: float | None,
) -> Executor:
    """Return the executor of a name.

    Args:
        name: ``"serial"``, ``"threads"`` or ``"processes"``.
        factory: Builds one member.
        num_groups: G.
        group_size: N.
        num_workers: Threads (default: one per row, at most 128) or processes (default: one per core, at most one
            per group).
        reset_timeout_s: Seconds one reset may take.
        step_timeout_s: Seconds one step may take.

    Raises:
        ValueError: For an unknown name or a number that is not positive.
        TypeError: For a time that is no number.
    """
    if num_workers is not None and (
        isinstance(num_workers, bool) or not isinstance(num_workers, (int, np.integer)) or num_workers < 1
    ):
        raise ValueError(f"num_workers must be an int >= 1 or None, got {num_workers!r}.")
    for label, limit in (("reset_timeout_s", reset_timeout_s), ("step_timeout_s", step_timeout_s)):
        if limit is None:
            continue
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            raise TypeError(f"{label} must be a number of seconds or None, got {limit!r}.")
        if not limit > 0:
            raise ValueError(f"{label} must be > 0 seconds or None, got {limit!r}.")
    num_envs = num_groups * group_size
    if name == "serial":
        return SerialExecutor(factory, num_envs, reset_timeout_s=reset_timeout_s, step_timeout_s=step_timeout_s)
    if name == "threads":
        from agent_envs.executor_threads import ThreadExecutor

        return ThreadExecutor(
            factory,
            num_envs,
            num_threads=min(num_workers or 128, num_envs),
            reset_timeout_s=reset_timeout_s,
            step_timeout_s=step_timeout_s,
        )
    if name == "processes":
        from agent_envs.executor_processes import ProcessExecutor

        return ProcessExecutor(
            factory,
            num_groups=num_groups,
            group_size=group_size,
            num_processes=min(num_workers or available_cores(), num_groups),
            reset_timeout_s=reset_timeout_s,
            step_timeout_s=step_timeout_s,
        )
    raise unknown_name("executor", name, ("serial", "threads", "processes"))
