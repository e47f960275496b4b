"""Groups of rollouts of one task: a flat batch of G groups, and one group as a joint environment."""

from __future__ import annotations

import copy
import logging
import os
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agent_envs.batching import InfoBatcher, blank_observation, stack_observations
from agent_envs.errors import GroupMismatchError
from agent_envs.executors import EnvFactory, Executor, Failure, Outcome, make_executor
from agent_envs.group_checks import IDLE, Outage, check_actions, check_seeds, choose_tasks, one_per_group
from agent_envs.tasks import derive_seed

_log = logging.getLogger("agent_envs")
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class GroupVectorEnv(VectorEnv[Any, Any, npt.NDArray[Any]]):
    """G groups of N rollouts of one task each, as a flat batch of B = G * N rows.

    Rows ``g * N .. (g + 1) * N - 1`` are the members of group g (``group_index``). Autoreset is disabled: a finished
    row ignores its action, pays 0, keeps its flags and last observation, and ``info["active"]`` is False until the
    whole batch is reset, because a new episode in the middle would belong to no group.

    A member that raises, hangs or pays NaN is data: its row is truncated with reward 0 and
    ``info["infra_error"] = "<status>: <what>"``, idles, and its environment is rebuilt at the next reset.

    Args:
        env_factory: Builds one member, an :class:`~agent_envs.core.AgentEnv` or a wrapper of one. The ``processes``
            executor needs one that pickles.
        num_envs: B, the members of all groups together.
        group_size: N, the members of one group.
        executor: ``"serial"``, ``"threads"`` (environments that wait for a service) or ``"processes"`` (environments
            that are slow or not thread-safe; whole groups to a spawned worker).
        num_workers: Threads (default: one per row, at most 128) or processes (default: one per core, at most one per
            group). ``serial`` has none.
        reset_timeout_s: Seconds one member's reset may take, None for no limit.
        step_timeout_s: Seconds one member's step may take, None for no limit. ``threads`` abandons and ``processes``
            kills what hangs; ``serial`` cannot interrupt and fails the row once the call has come back.

    Raises:
        ValueError: If ``num_envs`` is no multiple of ``group_size``, or another value is outside what is allowed.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(
        self,
        env_factory: EnvFactory,
        *,
        num_envs: int,
        group_size: int,
        executor: str = "serial",
        num_workers: int | None = None,
        reset_timeout_s: float | None = None,
        step_timeout_s: float | None = None,
    ) -> None:
        for name, value in (("num_envs", num_envs), ("group_size", group_size)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise TypeError(f"{name} must be an int, got {value!r}.")
        if group_size < 1 or num_envs < 1 or num_envs % group_size:
            raise ValueError(
                f"num_envs must be a positive multiple of group_size, got num_envs={num_envs}, "
                f"group_size={group_size}. For 16 groups of 8 pass num_envs=128, group_size=8."
            )
        self.num_envs, self.group_size = int(num_envs), int(group_size)
        self.num_groups = self.num_envs // self.group_size
        self.executor = executor
        self._executor = make_executor(
            executor,
            env_factory,
            num_groups=self.num_groups,
            group_size=self.group_size,
            num_workers=num_workers,
            reset_timeout_s=reset_timeout_s,
            step_timeout_s=step_timeout_s,
        )
        # Workers must not outlive a batch that nobody closed.
        self._finalizer = weakref.finalize(self, _close_executor, self._executor, os.getpid())
        described = self._executor.description
        self.metadata = {**described.metadata, **type(self).metadata}
        self.single_observation_space = described.observation_space
        self.single_action_space = described.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.group_index: npt.NDArray[np.int64] = np.repeat(np.arange(self.num_groups), self.group_size)
        """Group of each row, [B]."""
        self._infos = InfoBatcher(self.num_envs, described.name)
        self._outage = Outage()
        self._ready = False
        self._observations: list[Any] = []
        self._terminated = self._truncated = np.zeros(self.num_envs, np.bool_)

    # ------------------------------------------------------------------ Gymnasium

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every row; the members of a group get the same seed and the same task.

        Args:
            seed: An int, of which group g gets ``derive_seed(seed, "group", g)``; or one int per group, used as they
                are; or None, drawn from ``np_random``.
            options: ``"split"``; ``"task_index"``, an int or one per group, where -1 leaves a group idle.

        Returns:
            The observations of all rows and the batched info; ``info["active"]`` [B] is True where an episode started.

        Raises:
            GroupMismatchError: If members of a group start in different states.
            ServiceDownError: If most rows of three successive batches failed.
        """
        infos = self.reset_rows(seed=seed, options=options)
        return stack_observations(self.single_observation_space, self._observations), infos

    def step(
        self, actions: Sequence[str], rows: Sequence[int] | None = None
    ) -> tuple[Any, Floats, Bools, Bools, dict[str, Any]]:
        """Play one turn in every row, or in ``rows`` only; finished rows idle.

        Args:
            actions: One text per row of the batch, or one per entry of ``rows``.
            rows: Different row numbers in any order; the other rows idle as finished ones do.

        Returns:
            Observations, rewards [B], terminations [B], truncations [B] and the batched info. Flags are sticky;
            ``info["active"]`` [B] is True where this step was played, so ``active & (terminations | truncations)`` are
            the rows that it ended.

        Raises:
            ValueError: If the number of actions or a row number is wrong.
            TypeError: If an action is not a string or a row number not an int. Nothing has moved then.
            ServiceDownError: If most rows of three successive batches failed.
        """
        rewards, infos = self.step_rows(actions, rows)
        observations = stack_observations(self.single_observation_space, self._observations)
        return observations, rewards, self._terminated.copy(), self._truncated.copy(), infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close environments and workers."""
        self._finalizer()

    # ------------------------------------------------------------------ the same without batching the observations

    def reset_rows(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Start an episode in every row as :meth:`reset`; return the batched info only (see ``row_observations``)."""
        self._check_open()
        described = self._executor.description
        name = self.spec.id if self.spec is not None else described.name
        split, tasks = choose_tasks(options, described, name, self.num_groups)
        seeds = self._group_seeds(seed)
        self._ready = False
        groups = self.group_index.tolist()
        rows = [row for row, group in enumerate(groups) if tasks[group] != IDLE]
        member_options: list[dict[str, Any]] = [{"split": split} for _ in rows]
        for row, member in zip(rows, member_options, strict=True):
            if (task := tasks[groups[row]]) is not None:
                member["task_index"] = task
        self._observations = [None] * self.num_envs
        self._last_info: list[dict[str, Any]] = [{}] * self.num_envs
        self._terminated = np.zeros(self.num_envs, np.bool_)
        self._truncated = np.ones(self.num_envs, np.bool_)  # until an episode has started
        self._outage.begin(len(rows))
        outcomes = self._executor.reset_many(rows, [seeds[groups[row]] for row in rows], member_options)
        infos: list[dict[str, Any]] = []
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome, Failure):
                task = tasks[groups[row]]
                which = f"seed {seeds[groups[row]]}" if task is None else str(task)
                call = f"reset of {described.name}/{split}/{which}"
                infos.append({"infra_error": self._fail(row, outcome, call)})
            else:
                self._observations[row], _, _, self._truncated[row], info = outcome
                self._last_info[row] = info
                infos.append(info)
        for row in range(self.num_envs):
            if self._observations[row] is None:
                self._observations[row] = blank_observation(self.single_observation_space)
        self._outage.check()
        self._check_groups()
        batched = self._infos.batch(rows, infos)
        batched["active"] = ~self._truncated
        self._ready = True
        return batched

    def step_rows(self, actions: Sequence[str], rows: Sequence[int] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Play one turn as :meth:`step`; return rewards and info only (see ``row_observations``)."""
        self._check_open()
        if not self._ready:
            raise ResetNeeded("Call reset() before step().")
        active = ~(self._terminated | self._truncated)
        numbers = check_actions(actions, rows, self.num_envs)
        acting = [(row, action) for row, action in zip(numbers, actions, strict=True) if active[row]]
        acting_rows = [row for row, _ in acting]
        if rows is not None:
            active = np.zeros(self.num_envs, np.bool_)
            active[acting_rows] = True
        rewards = np.zeros(self.num_envs, np.float64)
        self._ready = False  # until all rows have moved: an interrupted batch needs a reset
        outcomes = self._executor.step_many(acting_rows, [action for _, action in acting])
        infos = [self._apply(row, outcome, rewards) for row, outcome in zip(acting_rows, outcomes, strict=True)]
        self._outage.check()
        batched = self._infos.batch(acting_rows, infos)
        batched["active"] = active
        self._ready = True
        return rewards, batched

    @property
    def row_observations(self) -> tuple[Any, ...]:
        """The last observation of each row, not batched; empty before a reset. Arrays are the members' own."""
        return tuple(self._observations)

    @property
    def flags(self) -> tuple[Bools, Bools]:
        """Copies of the sticky flags: terminated [B] and truncated [B]."""
        return self._terminated.copy(), self._truncated.copy()

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """The members' environments, for a look inside (serial and threads; those of processes live elsewhere)."""
        self._check_open()
        return self._executor.envs()

    def fingerprint(self, split: str) -> str:
        """Return the digest of a split's task data, as panels record it."""
        self._check_open()
        return self._executor.fingerprint(split)

    # ------------------------------------------------------------------ one row

    def _apply(self, row: int, outcome: Outcome, rewards: Floats) -> dict[str, Any]:
        if not isinstance(outcome, Failure):
            observation, rewards[row], self._terminated[row], self._truncated[row], info = outcome
            self._observations[row], self._last_info[row] = observation, info
            return info
        last = self._last_info[row]
        text = self._fail(row, outcome, f"step of {last['task_id']}")
        kept = {key: last[key] for key in ("state_key", "task_id", "task", "turn", "success", "score")}
        return {**kept, "infra_error": text, "action_is_valid": False, "refusal": ""}

    def _fail(self, row: int, failure: Failure, call: str) -> str:
        text = failure.text(call)
        self._truncated[row] = True
        self._outage.add(text, failure.trace)
        _log.warning("row %d: %s", row, text)
        if failure.trace:
            _log.debug("row %d: %s", row, failure.trace)
        return text

    def _check_groups(self) -> None:
        for group in range(self.num_groups):
            members = range(group * self.group_size, (group + 1) * self.group_size)
            infos = [self._last_info[row] for row in members if self._last_info[row]]
            keys = {info["state_key"] for info in infos}
            tasks = sorted({info["task_id"] for info in infos})
            if len(keys) > 1 or len(tasks) > 1:
                raise GroupMismatchError(
                    f"Members of group {group} start in different states "
                    f"({'task' if len(tasks) == 1 else 'tasks'} {', '.join(tasks)}): "
                    f"{len(keys)} keys for {len(infos)} members. The same split, task_index and seed must give the "
                    f"same start: {self._executor.description.name} draws from something other than self.np_random, "
                    "or its data differ between workers. Please report it with this text."
                )

    # ------------------------------------------------------------------ arguments

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("This batch is closed, make a new one.")

    def _group_seeds(self, seed: int | Sequence[int] | None) -> list[int]:
        if seed is None:
            return [int(value) for value in self.np_random.integers(1 << 63, size=self.num_groups)]
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            check_seeds([int(seed)])
            super().reset(seed=int(seed))
            return [derive_seed(int(seed), "group", group) for group in range(self.num_groups)]
        return check_seeds(one_per_group(seed, self.num_groups, "seed"))


def _close_executor(executor: Executor, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that the user forked
        executor.close()


class GroupEnv(gym.Env[tuple[Any, ...], tuple[str, ...]]):
    """One group as a joint environment: what ``gym.make(id, group_size=N)`` returns for N > 1.

    Observations and actions are N-tuples. ``reward`` is the mean over the members; ``terminated`` is True once all
    have ended and at least one of them terminated, ``truncated`` once all have ended and none terminated. ``info``
    holds arrays of shape (N,), among them ``rewards``, ``terminations``, ``truncations``, ``active``, ``state_key``
    and ``task_id``.

    Args:
        vector: A vector environment of one group; it does all the stepping.

    Raises:
        ValueError: If ``vector`` has more than one group.
    """

    def __init__(self, vector: GroupVectorEnv) -> None:
        if vector.num_groups != 1:
            raise ValueError(f"GroupEnv is one group, got a vector environment of {vector.num_groups}.")
        self.vector = vector
        self.group_size = vector.group_size
        # Frames belong to members; the joint environment has none of its own.
        self.metadata = {**vector.metadata, "render_modes": []}
        del self.metadata["autoreset_mode"]
        self.observation_space = spaces.Tuple([vector.single_observation_space] * self.group_size)
        self.action_space = spaces.Tuple([vector.single_action_space] * self.group_size)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Start an episode in every member: group 0 of ``GroupVectorEnv.reset(seed=seed)``."""
        super().reset(seed=seed)
        info = self.vector.reset_rows(seed=seed, options=options)
        return self.vector.row_observations, info

    def step(self, action: tuple[str, ...]) -> tuple[tuple[Any, ...], float, bool, bool, dict[str, Any]]:
        """Play one turn in every member that has not ended."""
        rewards, info = self.vector.step_rows(action)
        terminated, truncated = self.vector.flags
        info.update(rewards=rewards, terminations=terminated, truncations=truncated)
        observations = tuple(
            observation if played else copy.deepcopy(observation)  # an idle member's is handed out a second time
            for observation, played in zip(self.vector.row_observations, info["active"], strict=True)
        )
        ended = bool((terminated | truncated).all())
        won = ended and bool(terminated.any())
        return observations, float(rewards.mean()), won, ended and not won, info

    def close(self) -> None:
        """Close all members."""
        self.vector.close()
