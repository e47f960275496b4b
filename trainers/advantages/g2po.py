"""G2PO (arXiv 2606.22995): node and edge advantages on the graph of a group's states."""

from __future__ import annotations

import dataclasses

import numpy as np

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.index import TurnIndex
from agent_envs.trainers.advantages.normalise import episode_part, normalise, shift_back
from agent_envs.trainers.advantages.registry import register_estimator
from agent_envs.trainers.advantages.segments import FloatArray, segment_mean
from agent_envs.trainers.advantages.table import Advantages, TurnTable, make_advantages


@register_estimator("g2po")
def g2po(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """A = episode + w * (node + edge) (Eq. 8).

    A node is worth the mean of the discounted outcomes of its rows. `node` normalises the value of the node reached
    over the rows of the node left, `edge` normalises the gain in value over the group (or the batch).

    Returns:
        `parts`: `episode`, `node`, `edge`, `value` (of the node left), `next_value` (of the node reached).
    """
    config = config.resolve("g2po", compat=("g2po",))
    if config.compat == "g2po":
        # The released code ignores its gamma and has these numbers written in.
        config = dataclasses.replace(
            config,
            gamma=0.95,
            value_offset=1,
            terminal_value="ten_or_zero",
            node_penalty=0.1,
            edge_scope="group",
        )
    index = table.index
    value, next_value = node_values(index, config)
    reached = next_value - config.node_penalty * index.invalid
    node = normalise(reached, index.node, index.num_nodes, config)
    scope, num_scopes = index.group, index.num_groups
    if config.edge_scope == "batch":
        scope, num_scopes = np.zeros_like(index.group), 1
    edge = normalise(next_value - value, scope, num_scopes, config)
    episode = episode_part(index, config)
    parts = {"episode": episode, "node": node, "edge": edge, "value": value, "next_value": next_value}
    return make_advantages(table, episode + config.w * (node + edge), parts)


def node_values(index: TurnIndex, config: EstimatorConfig) -> tuple[FloatArray, FloatArray]:
    """Value of the node each row left and of the one it reached.

    Turn t of T contributes gamma^(T - 1 - t + value_offset) times the outcome of its trajectory to its node.

    Args:
        index: The batch.
        config: Resolved options.

    Returns:
        Two arrays, float64 [m].
    """
    remaining = index.length[index.traj] - 1 - index.t + config.value_offset
    worth = config.gamma**remaining * index.outcome[index.traj]
    value = segment_mean(worth, index.node, index.num_nodes)[index.node]
    return value, shift_back(value, index, _terminal_values(index, config))


def _terminal_values(index: TurnIndex, config: EstimatorConfig) -> FloatArray:
    if config.terminal_value == "outcome":
        return index.outcome
    total = np.zeros(index.num_trajs, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(total, index.traj, index.reward.astype(np.float32))  # turn by turn, with float32's rounding
    return np.where(total == 10.0, 10.0, 0.0)
