"""Trajectory-level estimators: GRPO, Dr.GRPO, RLOO, REINFORCE++, and DAPO's filter of groups."""

from __future__ import annotations

import dataclasses

import numpy as np

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.index import Key
from agent_envs.trainers.advantages.normalise import (
    episode_part,
    episode_samples,
    episode_scores,
    normalise,
)
from agent_envs.trainers.advantages.registry import register_estimator
from agent_envs.trainers.advantages.segments import FloatArray
from agent_envs.trainers.advantages.table import Advantages, TurnTable, make_advantages


@register_estimator("grpo")
def grpo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """GRPO (arXiv 2402.03300): the trajectory's return, normalised over its group.

    Returns:
        `parts`: `episode`.
    """
    config = config.resolve("grpo", compat=("verl-agent", "g2po"))
    episode = episode_part(table.index, config)
    return make_advantages(table, episode, {"episode": episode})


@register_estimator("dr_grpo")
def dr_grpo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """Dr.GRPO (arXiv 2503.20783): GRPO without division by the std.

    The paper also divides the token sum of the loss by a constant instead of the response length; that is up to the
    trainer.

    Returns:
        `parts`: `episode`.
    """
    _refuse_std("dr_grpo", config)
    config = config.resolve("dr_grpo", compat=("verl-agent", "g2po"))
    episode = episode_part(table.index, config)
    return make_advantages(table, episode, {"episode": episode})


@register_estimator("rloo")
def rloo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """RLOO (arXiv 2402.14740): the return minus the mean return of the other members, N/(N-1) * (R - mean).

    With `weighting="row"` one row is left out and not one trajectory.

    Returns:
        `parts`: `episode`.
    """
    _refuse_std("rloo", config)
    config = config.resolve("rloo", compat=("verl-agent", "g2po"))
    index = table.index
    samples = episode_samples(index, config)
    count = np.bincount(index.group if samples is None else index.group[samples], minlength=index.num_groups)
    left_out = count / np.maximum(count - 1, 1)
    episode = episode_part(index, config) * left_out[index.group]
    return make_advantages(table, episode, {"episode": episode})


@register_estimator("reinforce_pp")
def reinforce_pp(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """REINFORCE++ (arXiv 2501.03262) with a turn as the unit: returns normalised over all rows of the batch.

    Returns:
        `parts`: `episode`.
    """
    config = config.resolve("reinforce_pp", norm="mean_std_norm")
    episode = _over_batch(episode_scores(table.index, config), config)
    return make_advantages(table, episode, {"episode": episode})


@register_estimator("reinforce_pp_baseline")
def reinforce_pp_baseline(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """REINFORCE++-baseline (arXiv 2501.03262): minus the mean of the group, then normalised over the batch.

    Returns:
        `parts`: `episode`.
    """
    config = config.resolve("reinforce_pp_baseline", norm="mean_std_norm")
    centred = episode_part(table.index, dataclasses.replace(config, norm="mean_norm"))
    episode = _over_batch(centred, config)
    return make_advantages(table, episode, {"episode": episode})


def groups_with_spread(table: TurnTable) -> list[Key]:
    """Groups that DAPO's dynamic sampling (arXiv 2503.14476) keeps: those whose outcomes differ by more than 1e-9.

    The outcome is the sum of rewards without penalties. Rows of weight 0 do not count.

    Returns:
        Keys of `table.group`, in order of first appearance.
    """
    index = table.index
    first = np.full(index.num_groups, len(table))
    np.minimum.at(first, index.group, index.position)
    return [table.group[row] for row in first[index.spread].tolist()]


def _over_batch(values: FloatArray, config: EstimatorConfig) -> FloatArray:
    return normalise(values, np.zeros(len(values), np.int64), 1, config)


def _refuse_std(name: str, config: EstimatorConfig) -> None:
    if config.norm == "mean_std_norm":
        raise ValueError(f"norm='mean_std_norm' contradicts {name!r}, which divides by no std; leave norm None.")
