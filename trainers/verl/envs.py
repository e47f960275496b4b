"""Environments for coroutines: one per rollout, run where the environment's registered executor asks for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.executors import Failure, Member, Outcome, available_cores, call_member
from agent_envs.records import Status
from agent_envs.registration import group_settings
from agent_envs.trainers.recipe import AgentEnvsSection
from agent_envs.trainers.verl.config import VerlSection

assert agent_envs.__version__  # imported for its registrations: worker processes make environments by id

_NUM_THREADS = 128
# Environments live in the process that steps them: this one, or a spawned worker.
_MEMBERS: dict[tuple[str, int], Member] = {}


def _call(
    name: str,
    number: int,
    factory: functools.partial[Any],
    method: str,
    arguments: tuple[Any, ...],
    limit: float | None,
) -> Outcome:
    member = _MEMBERS.get((name, number))
    if member is None:
        member = _MEMBERS[name, number] = Member(factory)
    return call_member(member, method, arguments, limit)


class Lease:
    """One environment that one rollout uses."""

    def __init__(self, pool: EnvPool, number: int) -> None:
        self._pool, self.number = pool, number
        self.lost = False
        """Whether a call is still under way after its time limit: the environment must not be used again."""

    async def reset(self, seed: int, options: dict[str, Any]) -> Outcome:
        """Start an episode; whatever goes wrong becomes a :class:`~agent_envs.executors.Failure`."""
        return await self._run("reset", (seed, options), self._pool.reset_timeout_s)

    async def step(self, action: str) -> Outcome:
        """Play one turn."""
        return await self._run("step", (action,), self._pool.step_timeout_s)

    async def _run(self, method: str, arguments: tuple[Any, ...], limit: float | None) -> Outcome:
        pool = self._pool
        executor = pool.executor_of(self.number)
        call = functools.partial(_call, pool.name, self.number, pool.factory, method, arguments, limit)
        try:
            future = asyncio.get_running_loop().run_in_executor(executor, call)
            # A thread starts at once, so its time can be taken here; a queue of others may stand before the rest.
            return await asyncio.wait_for(future, limit if pool.kind == "threads" else None)
        except TimeoutError:
            self.lost = True
            return Failure(status=Status.ERROR_TIMEOUT, overdue_s=limit)
        except BrokenExecutor as error:
            pool.replace(self.number, executor)
            return Failure(status=Status.ERROR_ENV, what=f"worker process died: {error}")


class EnvPool:
    """The environments of one recipe in one process; a finished rollout's is used again by the next.

    Args:
        section: Names environment and keyword arguments.
        options: Executor, number of workers, time limits.
    """

    def __init__(self, section: AgentEnvsSection, options: VerlSection) -> None:
        self.name = json.dumps([section.env_id, dict(section.env_kwargs)], sort_keys=True, default=str)
        self.factory = functools.partial(gym.make, section.env_id, disable_env_checker=True, **dict(section.env_kwargs))
        registered = gym.spec(section.env_id).kwargs
        settings = group_settings(
            registered["env_class"],
            {**registered, **section.env_kwargs},
            executor=options.executor or registered.get("executor"),
            reset_timeout_s=options.reset_timeout_s,
            step_timeout_s=options.step_timeout_s,
        )
        self.kind: str = settings["executor"]
        self.reset_timeout_s, self.step_timeout_s = settings["reset_timeout_s"], settings["step_timeout_s"]
        self._free: list[int] = []
        self._next = 0
        if self.kind == "processes":
            self._executors: list[Executor] = [_process() for _ in range(options.num_workers or available_cores())]
        else:
            threads = (options.num_workers or _NUM_THREADS) if self.kind == "threads" else 1
            self._executors = [ThreadPoolExecutor(threads, thread_name_prefix="agent_envs")]

    @contextlib.asynccontextmanager
    async def lease(self) -> AsyncIterator[Lease]:
        """Lend one environment for an episode."""
        if self._free:
            number = self._free.pop()
        else:
            number, self._next = self._next, self._next + 1
        lease = Lease(self, number)
        try:
            yield lease
        finally:
            if not lease.lost:
                self._free.append(number)

    def executor_of(self, number: int) -> Executor:
        """Return where the environment of a number lives."""
        return self._executors[number % len(self._executors)]

    def replace(self, number: int, broken: Executor) -> None:
        """Start a new process in place of a dead one, unless that was done already."""
        place = number % len(self._executors)
        if self._executors[place] is broken:
            self._executors[place] = _process()

    def close(self) -> None:
        """End threads and processes."""
        for executor in self._executors:
            executor.shutdown(wait=True, cancel_futures=True)
        for key in [key for key in _MEMBERS if key[0] == self.name]:
            _MEMBERS.pop(key).discard()


def _process() -> Executor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


_POOLS: dict[str, EnvPool] = {}


def env_pool(section: AgentEnvsSection, options: VerlSection) -> EnvPool:
    """Return this process's pool of a recipe."""
    key = repr((section.env_id, section.env_kwargs, options))
    if key not in _POOLS:
        _POOLS[key] = EnvPool(section, options)
    return _POOLS[key]
