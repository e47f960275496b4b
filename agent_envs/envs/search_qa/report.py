"""Scores per data set, their average and the searches per question, from a panel's result."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from agent_envs.envs.search_qa.loaders import BENCHMARKS
from agent_envs.panels import PanelResult, TaskScore

HOP_TYPES = ("single-hop", "multi-hop")
"""``info["task_type"]`` of Search QA."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceScore:
    """Figures over the questions of one data set, or of one number of hops."""

    name: str
    num_tasks: int
    exact_match: float
    f1: float
    searches: float
    """Searches per question."""


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
            figures = f"{score.exact_match:.3f} | {score.f1:.3f} | {score.searches:.2f}"
            rows.append(f"| {score.name} | {score.num_tasks} | {figures} |")
        return "\n".join([*rows, f"| average over data sets | | {self.average:.3f} | | |"])


def make_report(result: PanelResult) -> Report:
    """Return the figures of a panel of Search QA.

    Args:
        result: What :func:`agent_envs.panels.evaluate` returned; tasks whose plays all failed are left out.

    Raises:
        ValueError: If no task was played, or the panel is of another environment.
    """
    by_source: defaultdict[str, list[TaskScore]] = defaultdict(list)
    by_hops: defaultdict[str, list[TaskScore]] = defaultdict(list)
    for task in result.tasks:
        name, _, rest = task.task_id.partition("/")
        if name != "search_qa":
            raise ValueError(f"The result is not of Search QA: it has task {task.task_id!r}.")
        if task.plays:
            source = rest.partition("/")[2].partition(":")[0]
            by_source[source].append(task)
            by_hops[task.task_type].append(task)
    if not by_source:
        raise ValueError("The result has no task that was played to its end.")
    order = [name for name in BENCHMARKS if name in by_source]
    order += sorted(by_source.keys() - set(order))
    sources = tuple(_score(name, by_source[name]) for name in order)
    hops = tuple(_score(name, by_hops[name]) for name in HOP_TYPES if name in by_hops)
    return Report(sources=sources, hops=hops, average=float(np.mean([score.exact_match for score in sources])))


def _score(name: str, tasks: list[TaskScore]) -> SourceScore:
    return SourceScore(
        name=name,
        num_tasks=len(tasks),
        exact_match=float(np.mean([task.success for task in tasks])),
        f1=float(np.mean([task.score for task in tasks])),
        searches=float(np.mean([task.tool_calls for task in tasks])),
    )
