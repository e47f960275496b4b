"""Temporal-difference estimators over turns: PPO's GAE with a critic, and GAGPO with state groups for a critic."""

from __future__ import annotations

from typing import cast

import numpy as np

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.normalise import (
    discounted_sum,
    normalise,
    penalised_reward,
    returns_to_go,
    shift_back,
)
from agent_envs.trainers.advantages.registry import register_estimator
from agent_envs.trainers.advantages.segments import FloatArray, segment_mean
from agent_envs.trainers.advantages.table import MAX_REWARD, Advantages, TurnTable, make_advantages


@register_estimator("gae")
def gae(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """Turn-level GAE (arXiv 1506.02438) from the columns `value` and `next_value`.

    A trajectory that did not terminate is worth `next_value` after its last turn, or 0 without that column.

    Returns:
        `parts`: `target` for the critic, advantage + value, and `delta`, the TD errors.
    """
    if table.value is None:
        raise ValueError("'gae' needs the critic's value of every row: pass TurnTable(value=...).")
    _refuse_row_penalty("gae", config)
    config = config.resolve("gae", norm="mean_std_norm")
    index = table.index
    value = cast(FloatArray, table.value)[index.position]
    after = shift_back(value, index, _bootstrap(table))
    delta = penalised_reward(index, config) + config.gamma * after - value
    raw = discounted_sum(delta, index, config.gamma * config.lam)
    total = normalise(raw, np.zeros(len(raw), np.int64), 1, config) if config.whiten else raw
    return make_advantages(table, total, {"target": raw + value, "delta": delta})


@register_estimator("gagpo")
def gagpo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """GAGPO (arXiv 2605.13217): GAE whose critic is the mean return to go of each node, normalised over the group.

    There is no episode part. The formula is a reconstruction from descriptions of the paper.

    Returns:
        `parts`: `raw` (before normalising), `value` (of the node left), `return`.
    """
    _refuse_row_penalty("gagpo", config)
    config = config.resolve("gagpo")
    index = table.index
    returns = returns_to_go(index, config)
    value = segment_mean(returns, index.node, index.num_nodes)[index.node]
    after = shift_back(value, index, np.zeros(index.num_trajs))
    delta = penalised_reward(index, config) + config.gamma * after - value
    raw = discounted_sum(delta, index, config.gamma * config.lam)
    total = normalise(raw, index.group, index.num_groups, config)
    return make_advantages(table, total, {"raw": raw, "value": value, "return": returns})


def _bootstrap(table: TurnTable) -> FloatArray:
    """Critic's value after the last turn: 0 where the environment ended."""
    index = table.index
    if table.next_value is None:
        return np.zeros(index.num_trajs)
    row = index.position[index.last]
    final = np.where(index.terminated, 0.0, cast(FloatArray, table.next_value)[row])
    bad = np.flatnonzero(~(np.abs(final) <= MAX_REWARD))
    if bad.size:
        raise ValueError(
            f"Row {row[bad].min()}: next_value must be finite where a trajectory ends without terminated, "
            f"got {final[bad[np.argmin(row[bad])]]}."
        )
    return final


def _refuse_row_penalty(name: str, config: EstimatorConfig) -> None:
    if config.penalty == "row":
        raise ValueError(f"penalty='row' has no meaning for {name!r}; use 'reward' or 'none'.")
