"""The normaliser all group estimators share, and discounted sums along trajectories."""

from __future__ import annotations

import numpy as np

from agent_envs.trainers.advantages.config import EstimatorConfig, Singleton
from agent_envs.trainers.advantages.index import BoolArray, TurnIndex
from agent_envs.trainers.advantages.segments import FloatArray, IntArray, segment_mean, segment_range, segment_sum

# Sums of the same numbers in another order differ in the last bits; such a difference is no spread.
RELATIVE_SPREAD = 1e-12


def has_spread(values: FloatArray, segment: IntArray, num_segments: int) -> BoolArray:
    """Whether the values of each segment differ, bool [num_segments].

    Decided on the values and not on their std: the mean of equal numbers is rounded, and what is left divided by eps
    would look like an advantage.

    Args:
        values: Float64 [n].
        segment: Segment of each value, int64 [n].
        num_segments: Number of segments.
    """
    low, high = segment_range(values, segment, num_segments)
    spread: BoolArray = high - low > RELATIVE_SPREAD * np.maximum(np.abs(low), np.abs(high))
    return spread


def normalise(
    values: FloatArray,
    segment: IntArray,
    num_segments: int,
    config: EstimatorConfig,
    *,
    samples: IntArray | None = None,
    singleton: Singleton = "zero",
) -> FloatArray:
    """Subtract the mean of each value's segment and, with `mean_std_norm`, divide by its std + eps.

    Segments without spread give exactly 0, and so do those with too few samples for a std.

    Args:
        values: Float64 [n].
        segment: Segment of each value, int64 [n].
        num_segments: Number of segments.
        config: Resolved options; `norm`, `ddof` and `eps` are read.
        samples: Rows that enter mean and std, int64 [m]; `None` for all.
        singleton: What a segment with one sample gives, 0 or the value itself.

    Returns:
        Float64 [n], always finite.
    """
    sample, where = (values, segment) if samples is None else (values[samples], segment[samples])
    count = np.bincount(where, minlength=num_segments)
    mean = segment_mean(sample, where, num_segments)
    varied = has_spread(values, segment, num_segments) & (count > 1)
    scale = np.ones(num_segments)
    if config.norm == "mean_std_norm":
        degrees = count - (config.ddof or 0)
        square = segment_sum((sample - mean[where]) ** 2, where, num_segments)
        scale = np.sqrt(square / np.maximum(degrees, 1)) + config.eps
        varied &= (degrees > 0) & has_spread(sample, where, num_segments)
    out = np.where(varied[segment], (values - mean[segment]) / scale[segment], 0.0)
    if singleton == "raw":
        raw = values / (1.0 + config.eps) if config.norm == "mean_std_norm" else values
        out = np.where(count[segment] == 1, raw, out)
    return out


def discounted_sum(values: FloatArray, index: TurnIndex, discount: float) -> FloatArray:
    """y_t = x_t + discount * y_{t+1} along each trajectory, nothing after the last turn.

    One pass per turn over all trajectories that are long enough: n operations in all, without padding.

    Args:
        values: Float64 [m], sorted as in `index`.
        index: The batch.
        discount: Factor per turn.
    """
    out = values.copy()
    if not len(out):
        return out
    longest_first = np.argsort(-index.length, kind="stable")
    start = index.start[longest_first]
    # active[j]: trajectories that have a turn j + 1.
    active = np.searchsorted(-index.length[longest_first], -np.arange(1, index.length.max()), side="left")
    for turn in range(len(active) - 1, -1, -1):
        row = start[: active[turn]] + turn
        out[row] += discount * out[row + 1]
    return out


def shift_back(values: FloatArray, index: TurnIndex, final: FloatArray) -> FloatArray:
    """Value of the next row of the same trajectory, float64 [m].

    Args:
        values: Float64 [m], sorted as in `index`.
        index: The batch.
        final: What follows the last row of each trajectory, float64 [num_trajs].
    """
    after = np.empty_like(values)
    after[:-1] = values[1:]
    after[index.last] = final
    return after


def penalised_reward(index: TurnIndex, config: EstimatorConfig) -> FloatArray:
    """Reward of each turn, with the penalty of invalid actions where it is part of the reward, float64 [m]."""
    return index.reward - config.penalty_coef * index.invalid if config.penalty == "reward" else index.reward


def returns_to_go(index: TurnIndex, config: EstimatorConfig) -> FloatArray:
    """Discounted sum of the rewards from each turn on (GiGPO Eq. 5), float64 [m]."""
    returns = discounted_sum(penalised_reward(index, config), index, config.gamma)
    return returns - config.penalty_coef * index.invalid if config.penalty == "row" else returns


def episode_scores(index: TurnIndex, config: EstimatorConfig) -> FloatArray:
    """Undiscounted return of each row's trajectory with its penalty, float64 [m].

    With `penalty="row"` two rows of a trajectory can differ: each carries its own penalty only.
    """
    scores = segment_sum(penalised_reward(index, config), index.traj, index.num_trajs)[index.traj]
    return scores - config.penalty_coef * index.invalid if config.penalty == "row" else scores


def episode_samples(index: TurnIndex, config: EstimatorConfig) -> IntArray | None:
    """Rows that enter the statistics of the episode part: the first of each trajectory, or all (`None`)."""
    return index.start if config.weighting == "trajectory" else None


def episode_part(index: TurnIndex, config: EstimatorConfig) -> FloatArray:
    """Group-normalised trajectory score (GRPO), the same on all rows of a trajectory unless the penalty is per row."""
    return normalise(
        episode_scores(index, config),
        index.group,
        index.num_groups,
        config,
        samples=episode_samples(index, config),
        singleton=config.singleton,
    )
