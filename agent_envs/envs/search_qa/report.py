"""Scores per data set, their average and the searches per question, from a panel's result."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.envs.search_qa.actions import parse_action
from agent_envs.envs.search_qa.loaders import BENCHMARKS, MULTI_HOP, SINGLE_HOP
from agent_envs.panels import PanelResult, Policy, TaskScore

_HOP_NAMES = {1: "single-hop", 2: "multi-hop"}


class CountSearches:
    """A policy that passes another's actions on and counts the searches among them, per task.

    Args:
        policy: The policy to watch.
        lenient: As given to the environment.
    """

    def __init__(self, policy: Policy, *, lenient: bool = False) -> None:
        self._policy, self._lenient = policy, lenient
        self._searches: defaultdict[str, int] = defaultdict(int)
        self._plays: defaultdict[str, set[int]] = defaultdict(set)

    def __call__(self, observations: Any, infos: dict[str, Any], rows: npt.NDArray[np.int64]) -> Sequence[str]:
        """Return the policy's actions."""
        actions = self._policy(observations, infos, rows)
        for row, action in zip(rows.tolist(), actions, strict=True):
            task = infos["task_id"][row]
            self._plays[task].add(row)
            self._searches[task] += parse_action(action, lenient=self._lenient).kind == "search"
        return actions

    def means(self) -> dict[str, float]:
        """Return task id to searches per play."""
        return {task: self._searches[task] / len(rows) for task, rows in self._plays.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceScore:
    """Figures over the questions of one data set, or of one number of hops."""

    name: str
    num_tasks: int
    exact_match: float
    f1: float
    searches: float
    """Searches per question, NaN if they were not counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Scores as in the tables of Search-R1 and GiGPO."""

    sources: tuple[SourceScore, ...]
    """One per data set; the seven benchmarks come first, in their usual order."""
    hops: tuple[SourceScore, ...]
    """Single-hop and multi-hop questions."""
    average: float
    """Mean of the data sets' exact match: every data set counts the same."""

    def table(self) -> str:
        """Return the report as a Markdown table."""
        rows = ["| data set | questions | EM | F1 | searches |", "|---|---|---|---|---|"]
        for score in (*self.sources, *self.hops):
            searches = "" if math.isnan(score.searches) else f"{score.searches:.2f}"
            rows.append(f"| {score.name} | {score.num_tasks} | {score.exact_match:.3f} | {score.f1:.3f} | {searches} |")
        return "\n".join([*rows, f"| average over data sets | | {self.average:.3f} | | |"])


def make_report(result: PanelResult, searches: Mapping[str, float] | None = None) -> Report:
    """Return the figures of a panel of Search QA.

    Args:
        result: What :func:`agent_envs.panels.evaluate` returned; tasks whose plays all failed are left out.
        searches: :meth:`CountSearches.means` of the policy that was evaluated.

    Raises:
        ValueError: If no task was played, or the panel is of another environment.
    """
    by_source: defaultdict[str, list[TaskScore]] = defaultdict(list)
    by_hops: defaultdict[int, list[TaskScore]] = defaultdict(list)
    for task in result.tasks:
        name, _, rest = task.task_id.partition("/")
        if name != "search_qa":
            raise ValueError(f"The result is not of Search QA: it has task {task.task_id!r}.")
        if task.plays:
            source = rest.partition("/")[2].partition(":")[0]
            by_source[source].append(task)
            by_hops[_num_hops(source)].append(task)
    if not by_source:
        raise ValueError("The result has no task that was played to its end.")
    order = [name for name in BENCHMARKS if name in by_source]
    order += sorted(by_source.keys() - set(order))
    sources = tuple(_score(name, by_source[name], searches) for name in order)
    hops = tuple(_score(name, by_hops[count], searches) for count, name in _HOP_NAMES.items() if count in by_hops)
    return Report(sources=sources, hops=hops, average=float(np.mean([score.exact_match for score in sources])))


def _score(name: str, tasks: list[TaskScore], searches: Mapping[str, float] | None) -> SourceScore:
    counted = math.nan
    if searches is not None:
        counted = float(np.mean([searches[task.task_id] for task in tasks]))
    return SourceScore(
        name=name,
        num_tasks=len(tasks),
        exact_match=float(np.mean([task.success for task in tasks])),
        f1=float(np.mean([task.score for task in tasks])),
        searches=counted,
    )


def _num_hops(source: str) -> int:
    if source in MULTI_HOP or source.endswith("_two_hop"):
        return 2
    return 1 if source in (*SINGLE_HOP, "wiki", "factbook") else 0
