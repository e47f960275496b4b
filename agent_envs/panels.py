"""Scoring a policy on a panel: every task exactly once, whatever the number of environments and workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agent_envs.errors import PanelMismatchError, ServiceDownError
from agent_envs.tasks import Panel, derive_seed

if TYPE_CHECKING:
    from agent_envs.groups import GroupVectorEnv

Policy = Callable[[Any, dict[str, Any], npt.NDArray[np.int64]], Sequence[str]]
"""``policy(observations, infos, rows) -> actions``: one action per entry of ``rows``, the rows that act next.

``observations`` and ``infos`` are those of the whole batch from the last reset or step; ``infos["turn"]`` is 0 right
after a reset, which is where a policy with a memory clears it.
"""
_Z_95 = 1.959963984540054


def wilson_interval(rate: float, count: int) -> tuple[float, float]:
    """Return the 95% Wilson score interval of a success rate over ``count`` tasks.

    Unlike ``rate +- 1.96 s`` it stays in [0, 1] and is not empty at 0 or 1 (Wilson 1927).

    Raises:
        ValueError: If ``rate`` is outside [0, 1] or ``count`` is not positive.
    """
    if not 0.0 <= rate <= 1.0 or count < 1:
        raise ValueError(f"rate must be in [0, 1] and count >= 1, got rate={rate}, count={count}.")
    shrink = 1.0 + _Z_95**2 / count
    centre = (rate + _Z_95**2 / (2 * count)) / shrink
    half = _Z_95 * math.sqrt(rate * (1 - rate) / count + _Z_95**2 / (4 * count**2)) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskScore:
    """How one task went; means over its plays without infrastructure error (NaN if there is none)."""

    task_index: int
    task_id: str
    success: float
    """Fraction of plays that solved the task."""
    score: float
    """The environment's own score in [0, 1]."""
    episode_return: float
    """Sum of rewards."""
    turns: float
    plays: int
    """Plays that count: ``group_size`` minus ``errors``."""
    errors: int
    """Plays that infrastructure ended; they count neither as success nor as failure."""
    task_type: str = ""
    """``info["task_type"]`` of the environment, empty where it has none."""
    tool_calls: float = 0.0
    """``info["tool_calls"]`` at the end of an episode, 0 where the environment has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelResult:
    """Scores of all tasks of a panel, in the panel's order."""

    panel: Panel
    group_size: int
    """Plays per task."""
    tasks: tuple[TaskScore, ...]

    def _mean(self, name: str) -> float:
        return float(np.mean([getattr(task, name) for task in self.tasks if task.plays]))

    @property
    def success_rate(self) -> float:
        """Mean success over the tasks that have a play that counts."""
        return self._mean("success")

    @property
    def success_interval(self) -> tuple[float, float]:
        """95% Wilson interval of the success rate; tasks are the sample, plays of one task are not independent."""
        return wilson_interval(self.success_rate, sum(task.plays > 0 for task in self.tasks))

    @property
    def mean_score(self) -> float:
        """Mean score over the tasks."""
        return self._mean("score")

    @property
    def mean_return(self) -> float:
        """Mean return over the tasks."""
        return self._mean("episode_return")

    @property
    def mean_turns(self) -> float:
        """Mean number of turns over the tasks."""
        return self._mean("turns")

    @property
    def num_errors(self) -> int:
        """Plays that infrastructure ended. A result is only comparable if this is 0 or small; report it with it."""
        return sum(task.errors for task in self.tasks)

    def by_type(self) -> dict[str, PanelResult]:
        """Return the result of each task type, sorted by name; empty where the environment has no types."""
        names = sorted({task.task_type for task in self.tasks if task.task_type and task.plays})
        return {
            name: replace(self, tasks=tuple(task for task in self.tasks if task.task_type == name)) for name in names
        }

    @property
    def mean_tool_calls(self) -> float:
        """Mean number of tool calls over the tasks."""
        return self._mean("tool_calls")

    def summary(self) -> str:
        """Return the figures in one line, and one line per task type where there are several."""
        types = self.by_type()
        lines = [
            f"  {name} ({len(part.tasks)}): success {part.success_rate:.3f}, score {part.mean_score:.3f}, "
            f"turns {part.mean_turns:.2f}, tool calls {part.mean_tool_calls:.2f}"
            for name, part in types.items()
        ]
        return "\n".join([self._figures(), *(lines if len(types) > 1 else [])])

    def _figures(self) -> str:
        low, high = self.success_interval
        return (
            f"{self.panel.env_id} {self.panel.split} ({len(self.tasks)} tasks x {self.group_size}): "
            f"success {self.success_rate:.3f} [{low:.3f}, {high:.3f}], score {self.mean_score:.3f}, "
            f"return {self.mean_return:.3f}, turns {self.mean_turns:.2f}, errors {self.num_errors}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values: figures, the panel and the tasks (NaN becomes None)."""
        tasks = [
            {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
            for row in map(asdict, self.tasks)
        ]
        return {
            "success_rate": self.success_rate,
            "success_interval": list(self.success_interval),
            "mean_score": self.mean_score,
            "mean_return": self.mean_return,
            "mean_turns": self.mean_turns,
            "mean_tool_calls": self.mean_tool_calls,
            "num_errors": self.num_errors,
            "by_type": {
                name: {
                    "tasks": len(part.tasks),
                    "success_rate": part.success_rate,
                    "mean_score": part.mean_score,
                    "mean_turns": part.mean_turns,
                    "mean_tool_calls": part.mean_tool_calls,
                }
                for name, part in self.by_type().items()
            },
            "group_size": self.group_size,
            "panel": asdict(self.panel),
            "tasks": tasks,
        }


@dataclass(slots=True)
class _Plays:
    """Running totals of one batch, [B] each."""

    returns: npt.NDArray[np.float64]
    turns: npt.NDArray[np.int64]
    success: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64]
    tool_calls: npt.NDArray[np.int64]
    errors: list[str] = field(default_factory=list)
    """``infra_error`` of each row."""
    task_types: list[str] = field(default_factory=list)
    """``task_type`` of each row, where the environment tells it."""

    @classmethod
    def start(cls, infos: dict[str, Any], num_envs: int) -> _Plays:
        plays = cls(
            returns=np.zeros(num_envs),
            turns=np.zeros(num_envs, np.int64),
            success=np.zeros(num_envs, np.bool_),
            scores=np.zeros(num_envs),
            tool_calls=np.zeros(num_envs, np.int64),
            errors=[""] * num_envs,
            task_types=[str(name or "") for name in infos.get("task_type", [""] * num_envs)],
        )
        plays.add(np.zeros(num_envs), infos)
        return plays

    def add(self, rewards: npt.NDArray[np.float64], infos: dict[str, Any]) -> None:
        self.returns += rewards
        columns = (
            (self.turns, "turn"),
            (self.success, "success"),
            (self.scores, "score"),
            (self.tool_calls, "tool_calls"),
        )
        for totals, name in columns:
            if name in infos:  # absent if no row of the call has it, for example if all resets failed
                told = infos[f"_{name}"]
                totals[told] = infos[name][told]
        if "infra_error" in infos:
            for row in np.flatnonzero(infos["_infra_error"]).tolist():
                self.errors[row] = self.errors[row] or infos["infra_error"][row]


def evaluate(policy: Policy, panel: Panel, vector_env: GroupVectorEnv, *, seed: int = 0) -> PanelResult:
    """Play every task of a panel once per member of a group and score it.

    The result does not depend on ``num_envs``, workers or earlier calls, if the policy's action depends on its row's
    episode alone.

    Args:
        policy: See :data:`Policy`.
        panel: The tasks.
        vector_env: The environments; ``group_size`` plays per task. It is not closed.
        seed: Decides the environments' own randomness, per task.

    Raises:
        PanelMismatchError: If the panel was made for other task data.
        ServiceDownError: If no play came to an end.
    """
    vector = vector_env.unwrapped
    have = vector.fingerprint(panel.split)
    if have != panel.fingerprint:
        raise PanelMismatchError(
            f"Panel was made for data {panel.fingerprint}, this installation has {have} "
            f"({panel.env_id}, split {panel.split!r}). Rebuild the panel or install the data it names."
        )
    scores: list[TaskScore] = []
    first_error = ""
    for indices in panel.batches(vector.num_groups):
        seeds = [derive_seed(seed, "panel", int(index)) for index in indices]
        plays, task_ids = _play(policy, vector, seeds, panel.split, indices)
        first_error = first_error or next(filter(None, plays.errors), "")
        for group, index in enumerate(indices.tolist()):
            if index >= 0:
                scores.append(_score(plays, group, vector.group_size, index, task_ids[group]))
    if not any(task.plays for task in scores):
        raise ServiceDownError(f"No play of {panel.env_id} {panel.split!r} came to an end. First error: {first_error}")
    return PanelResult(panel=panel, group_size=vector.group_size, tasks=tuple(scores))


def _play(
    policy: Policy, vector: GroupVectorEnv, seeds: list[int], split: str, indices: npt.NDArray[np.int64]
) -> tuple[_Plays, list[str]]:
    observations, infos = vector.reset(seed=seeds, options={"split": split, "task_index": indices})
    plays = _Plays.start(infos, vector.num_envs)
    task_ids = [""] * vector.num_groups
    for row in np.flatnonzero(infos["active"]).tolist():
        task_ids[row // vector.group_size] = infos["task_id"][row]
    rows = np.flatnonzero(infos["active"])
    while rows.size:
        actions = policy(observations, infos, rows)
        observations, rewards, terminations, truncations, infos = vector.step(actions, rows=rows.tolist())
        plays.add(rewards, infos)
        rows = np.flatnonzero(~(terminations | truncations))
    return plays, task_ids


def _score(plays: _Plays, group: int, group_size: int, index: int, task_id: str) -> TaskScore:
    members = range(group * group_size, (group + 1) * group_size)
    counted = [row for row in members if not plays.errors[row]]

    def mean(values: npt.NDArray[Any]) -> float:
        return float(values[counted].mean()) if counted else math.nan

    return TaskScore(
        task_index=index,
        task_id=task_id,
        success=mean(plays.success),
        score=mean(plays.scores),
        episode_return=mean(plays.returns),
        turns=mean(plays.turns),
        plays=len(counted),
        errors=group_size - len(counted),
        task_type=next(filter(None, (plays.task_types[row] for row in members)), ""),
        tool_calls=mean(plays.tool_calls),
    )
