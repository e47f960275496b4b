"""HGPO (arXiv 2602.22817): step groups of rows with equal recent histories, from short to long."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.index import TurnIndex
from agent_envs.trainers.advantages.normalise import episode_part, has_spread, normalise, returns_to_go
from agent_envs.trainers.advantages.registry import register_estimator
from agent_envs.trainers.advantages.segments import FloatArray, IntArray, intern_pairs
from agent_envs.trainers.advantages.table import Advantages, TurnTable, make_advantages


@register_estimator("hgpo")
def hgpo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """Weighted mean over K + 1 levels of context of the return to go, normalised per context; no episode part.

    The context of level k is the state acted in and up to k states before it. Level k has weight (k + 1)^alpha; with
    `hgpo_weights="skip"` levels that say nothing about a row leave its mean.

    Returns:
        `parts`: `step` (the total), `return`; in compat with `base_group` also `episode`, which the total then holds.
    """
    if config.base_group and config.compat is None:
        raise ValueError("base_group=True belongs to the released code; set compat='verl-agent' with it.")
    config = config.resolve("hgpo", norm="mean_std_norm", ddof=0, compat=("verl-agent",))
    returns = returns_to_go(table.index, config)
    if config.compat is not None:
        return _released(table, returns, config)
    index = table.index
    weighted, weights = np.zeros_like(returns), np.zeros_like(returns)
    for level, (context, num_contexts) in enumerate(_contexts(index, config.context_length)):
        weight = (level + 1.0) ** config.alpha
        # Membership and spread decide whether a level counts; an advantage that happens to be 0 does.
        speaks = has_spread(returns, context, num_contexts)[context]
        counts = speaks if config.hgpo_weights == "skip" else np.ones_like(speaks)
        weighted += weight * normalise(returns, context, num_contexts, config)
        weights += weight * counts
    step = weighted / np.where(weights > 0.0, weights, 1.0)
    return make_advantages(table, step, {"step": step, "return": returns})


def _released(table: TurnTable, returns: FloatArray, config: EstimatorConfig) -> Advantages:
    """The arithmetic of verl-agent's recipe.

    Contexts exist only where a row has enough predecessors, level k weighs (k + 2)^alpha, an item of exactly 0 leaves
    the mean, and eps is added to the sum of weights.
    """
    index = table.index
    items = []
    for level, (context, num_contexts) in enumerate(_contexts(index, config.context_length)):
        advantage = normalise(returns, context, num_contexts, config)
        items.append(((level + 2.0) ** config.alpha, np.where(index.t >= level, advantage, 0.0)))
    parts = {"return": returns}
    step = parts["step"] = _mean_of_nonzero(items, config.eps)
    if config.base_group:
        # The episode estimator divides by an unbiased std, whatever HGPO does.
        parts["episode"] = episode_part(index, dataclasses.replace(config, ddof=1))
        step = _mean_of_nonzero([*items, (1.0, parts["episode"])], config.eps)
    return make_advantages(table, step, parts)


def _mean_of_nonzero(items: list[tuple[float, FloatArray]], eps: float) -> FloatArray:
    weighted = sum((weight * value for weight, value in items), np.zeros_like(items[0][1]))
    weights = sum((weight * (value != 0.0) for weight, value in items), np.zeros_like(items[0][1]))
    return weighted / (weights + eps)


def _contexts(index: TurnIndex, context_length: int) -> Iterator[tuple[IntArray, int]]:
    """Context ids of each level 0..K, int64 [m], and their number; a row with fewer predecessors has its whole history.

    The context of level k is the pair of the previous row's context of level k - 1 and the node of the row itself.
    """
    context, num_contexts = index.node, index.num_nodes
    yield context, num_contexts
    for _ in range(context_length):
        before = np.full_like(context, -1)
        before[1:] = context[:-1]
        before[index.start] = -1
        context, num_contexts = intern_pairs(before, index.node)
        yield context, num_contexts
