"""Task and scenario goal completion, as AppWorld defines them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_envs.envs.appworld.tasks import scenario_of


@dataclass(frozen=True, kw_only=True, slots=True)
class GoalCompletion:
    """The benchmark's two scores, as fractions in [0, 1]."""

    task: float
    """Fraction of tasks whose tests all pass."""
    scenario: float
    """Fraction of scenarios all of whose tasks are solved."""
    num_tasks: int
    num_scenarios: int


def goal_completion(success: Mapping[str, bool]) -> GoalCompletion:
    """Return the scores of one run over tasks.

    Args:
        success: Task id, such as ``appworld/test_normal/82e2fac_1``, to whether it was solved.

    Raises:
        ValueError: If there is no task.
    """
    if not success:
        raise ValueError("success must hold at least one task, got none.")
    scenarios: dict[str, bool] = {}
    for task_id, solved in success.items():
        name = scenario_of(task_id)
        scenarios[name] = scenarios.get(name, True) and bool(solved)
    return GoalCompletion(
        task=sum(map(bool, success.values())) / len(success),
        scenario=sum(scenarios.values()) / len(scenarios),
        num_tasks=len(success),
        num_scenarios=len(scenarios),
    )
