"""GraphGPO (arXiv 2605.26684): distance to success on the graph of a group's states."""

from __future__ import annotations

import dataclasses

import numpy as np

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.index import BoolArray, TurnIndex
from agent_envs.trainers.advantages.normalise import episode_part, normalise
from agent_envs.trainers.advantages.registry import register_estimator
from agent_envs.trainers.advantages.segments import FloatArray, IntArray
from agent_envs.trainers.advantages.table import Advantages, TurnTable, make_advantages


@register_estimator("graphgpo")
def graphgpo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """A = episode + w * step, step = Rmax * omega^(d + 1) normalised over the rows that leave the same node.

    d is the number of turns from the state reached to success, over all transitions any member of the group made.

    Returns:
        `parts`: `episode`, `step`, `raw` (before normalising), `next_distance` (d).
    """
    config = config.resolve("graphgpo", norm="mean_std_norm", compat=("verl-agent",))
    index = table.index
    released = config.compat is not None
    if released:
        config = dataclasses.replace(config, node_penalty=config.penalty_coef)
    solved = index.outcome > 0.0 if released else index.success
    distance, next_distance = success_distances(index, solved)
    exponent = next_distance + (0.0 if released else 1.0)
    if config.normalize_distance:
        exponent = next_distance - distance + 1.0
    raw = config.max_reward * config.omega**exponent - config.node_penalty * index.invalid
    step = normalise(raw, index.node, index.num_nodes, config)
    episode = episode_part(index, config)
    parts = {"episode": episode, "step": step, "raw": raw, "next_distance": next_distance}
    return make_advantages(table, episode + config.w * step, parts)


def success_distances(index: TurnIndex, solved: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Fewest turns to success from the node each row left and from the one it reached.

    The last turn of a solved trajectory reaches success. Nodes that cannot reach it are one turn farther than the
    farthest that can, per group.

    Args:
        index: The batch.
        solved: Which trajectories reached success, bool [num_trajs].

    Returns:
        Two arrays, float64 [m].
    """
    first_goal = index.num_nodes
    first_dead_end = first_goal + index.num_groups
    target = index.next_node.copy()
    nameless = target[index.last] < 0
    target[index.last[nameless]] = first_dead_end + np.flatnonzero(nameless)
    target[index.last[solved]] = first_goal + index.traj_group[solved]

    goals = range(first_goal, first_dead_end)
    distance = _backward_search(index.node, target, goals, first_dead_end + index.num_trajs)
    left, reached = distance[index.node], distance[target]
    farthest = np.zeros(index.num_groups, np.int64)
    np.maximum.at(farthest, index.group, left)
    unreachable = farthest[index.group] + 1
    left, reached = (np.where(turns >= 0, turns, unreachable) for turns in (left, reached))
    return left.astype(np.float64), reached.astype(np.float64)


def _backward_search(source: IntArray, target: IntArray, goals: range, num_nodes: int) -> IntArray:
    """Breadth-first search from the goals against the edges: edges to the nearest goal, -1 if there is no path."""
    by_target = np.argsort(target, kind="stable")
    sources = source[by_target].tolist()
    ends = np.cumsum(np.bincount(target, minlength=num_nodes)).tolist()
    distance = [-1] * num_nodes
    for goal in goals:
        distance[goal] = 0
    queue = list(goals)
    for node in queue:  # grows while it is read
        for before in sources[ends[node - 1] if node else 0 : ends[node]]:
            if distance[before] < 0:
                distance[before] = distance[node] + 1
                queue.append(before)
    return np.array(distance, np.int64)
