"""Scores of a policy on a recipe's fixed panel."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import gymnasium as gym

from agent_envs.core import AgentEnv
from agent_envs.panels import PanelResult, evaluate
from agent_envs.tasks import Panel, derive_seed
from agent_envs.trainers.local.agent import Agent
from agent_envs.trainers.local.policy import Policy
from agent_envs.trainers.local.rollout import make_groups
from agent_envs.trainers.recipe import AgentEnvsSection, LocalSection


def make_panel(section: AgentEnvsSection) -> Panel:
    """Return the panel a recipe names: a file, a whole split, or a fixed sample of a split.

    Raises:
        ValueError: If the file is no panel, or is one of another environment.
    """
    if isinstance(section.panel, str):
        panel = Panel.load(section.panel)
        if panel.env_id != section.env_id:
            raise ValueError(f"Panel {section.panel} is for {panel.env_id}, the recipe trains {section.env_id}.")
        return panel
    split, size = section.panel.get("split", "test"), section.panel.get("size", 64)
    env = cast(AgentEnv, gym.make(section.env_id, **section.env_kwargs).unwrapped)
    try:
        if size == "all":
            return Panel.all(env, env_id=section.env_id, split=split, env_kwargs=section.env_kwargs)
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"agent_envs.panel.size must be an int or 'all', got {size!r}.")
        seed = section.panel.get("seed", 0)
        return Panel.sample(
            env, env_id=section.env_id, split=split, size=size, seed=seed, env_kwargs=section.env_kwargs
        )
    finally:
        env.close()


def evaluate_policy(
    policy: Policy, section: AgentEnvsSection, local: LocalSection, panel: Panel, *, num_envs: int | None = None
) -> PanelResult:
    """Play every task of the panel once.

    A task's draws depend on the recipe's seed and the task alone, so the result is the same for every ``num_envs``.

    Args:
        policy: The policy.
        section: The recipe's environment section.
        local: The recipe's hyper-parameters; ``eval_temperature`` is used.
        panel: The tasks.
        num_envs: Tasks played side by side; None for as many as a training batch has rows.
    """
    rows = min(len(panel), num_envs or section.num_groups * section.group_size)
    agent = Agent(
        policy,
        section,
        local,
        temperature=local.eval_temperature,
        row_seed=lambda row, task_id, turn: derive_seed(section.seed, "evaluate", task_id, turn),
    )
    vector = make_groups(section, local, rows, 1)
    try:
        return evaluate(agent, panel, vector, seed=derive_seed(section.seed, "evaluate"))
    finally:
        vector.close()


def panel_metrics(result: PanelResult) -> dict[str, float]:
    """Return the figures that go into ``metrics.jsonl``."""
    low, high = result.success_interval
    return {
        "eval/success": result.success_rate,
        "eval/success_low": low,
        "eval/success_high": high,
        "eval/score": result.mean_score,
        "eval/return": result.mean_return,
        "eval/turns": result.mean_turns,
        "eval/errors": float(result.num_errors),
    }


def load_panel(panel: Panel | str | Path | None, section: AgentEnvsSection) -> Panel:
    """Return the panel that a caller gives as such or as a file, or else the recipe's."""
    if panel is None:
        return make_panel(section)
    return panel if isinstance(panel, Panel) else Panel.load(panel)
