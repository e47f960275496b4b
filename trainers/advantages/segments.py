"""Keys to dense integers, the only place where the advantage code hashes texts, and statistics per integer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Pairs are numbered through a table of all possible pairs while it is this small, else by sorting.
_TABLE_SIZE_PER_ROW = 32


def intern(keys: Sequence[Hashable]) -> tuple[IntArray, int]:
    """Number keys in order of first appearance, in one dict pass.

    Args:
        keys: Any hashable keys, length n.

    Returns:
        The id of every key, int64 [n], and the number of distinct keys.
    """
    ids: defaultdict[Hashable, int] = defaultdict(count().__next__)
    numbers = np.fromiter(map(ids.__getitem__, keys), np.int64, len(keys))
    return numbers, len(ids)


def intern_pairs(first: IntArray, second: IntArray) -> tuple[IntArray, int]:
    """Number the pairs (first[i], second[i]), in no particular order.

    Args:
        first: Ids of -1 or more, int64 [n].
        second: Ids of 0 or more, int64 [n].

    Returns:
        The id of every pair, int64 [n], and the number of distinct pairs.
    """
    span = int(second.max(initial=0)) + 1
    codes = (first + 1) * span + second
    size = int(codes.max(initial=-1)) + 1
    if size > _TABLE_SIZE_PER_ROW * len(codes):
        distinct, ids = np.unique(codes, return_inverse=True)
        return ids.astype(np.int64, copy=False), len(distinct)
    present = np.zeros(size, np.bool_)
    present[codes] = True
    distinct = np.flatnonzero(present)
    number = np.empty(size, np.int64)
    number[distinct] = np.arange(len(distinct))
    return number[codes], len(distinct)


def segment_sum(values: FloatArray, segment: IntArray, num_segments: int) -> FloatArray:
    """Sum of the values of each segment, float64 [num_segments], added up in row order.

    Args:
        values: Float64 [n].
        segment: Segment of each value, int64 [n].
        num_segments: Number of segments.
    """
    return np.bincount(segment, values, num_segments).astype(np.float64, copy=False)  # int64 for n = 0


def segment_mean(values: FloatArray, segment: IntArray, num_segments: int) -> FloatArray:
    """Mean of the values of each segment, float64 [num_segments], 0 for empty segments."""
    count = np.bincount(segment, minlength=num_segments)
    return segment_sum(values, segment, num_segments) / np.maximum(count, 1)


def segment_range(values: FloatArray, segment: IntArray, num_segments: int) -> tuple[FloatArray, FloatArray]:
    """Least and greatest value of each segment, float64 [num_segments]; +inf and -inf for empty segments."""
    low = np.full(num_segments, np.inf)
    high = np.full(num_segments, -np.inf)
    np.minimum.at(low, segment, values)
    np.maximum.at(high, segment, values)
    return low, high
