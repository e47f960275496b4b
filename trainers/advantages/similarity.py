"""Step groups of similar instead of equal texts (GiGPO's option for free-text observations such as search results)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agent_envs.trainers.advantages.segments import intern
from agent_envs.trainers.advantages.table import TurnTable

Order = Literal["first_turn", "row"]

# Letters and pairs of letters are counted in so many bins. Two that share a bin can only raise a bound, so that a pair
# of texts is compared in full for nothing; the result stays exact.
_LETTER_BINS = 128
_PAIR_BINS = 512
# Letters between two looks at whether a comparison can still succeed.
_STRIDE = 32


def cluster_texts(texts: Sequence[str], threshold: float = 0.95) -> list[int]:
    """Cluster texts by the leader rule, in the order given.

    Each text joins the first cluster, in order of creation, whose first text (leader) it resembles:
    `difflib.SequenceMatcher(None, text, leader).ratio() >= threshold`. Otherwise it founds a cluster. The result is
    exactly that of comparing every pair; most pairs are ruled out by upper bounds of the ratio.

    Args:
        texts: Any texts, length n.
        threshold: Least similarity, in (0, 1).

    Returns:
        Cluster of each text, numbered from 0 in order of creation, length n.
    """
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold must be in (0, 1), for example 0.95, got {threshold!r}.")
    ids, _ = intern(texts)
    distinct = list(dict.fromkeys(texts))
    bounds = _Bounds(distinct, threshold)
    leaders: list[int] = []
    matchers: list[SequenceMatcher[str]] = []
    subsequences: list[_Subsequence] = []
    cluster: list[int] = []
    for number, text in enumerate(distinct):
        for candidate in bounds.candidates(number, leaders):
            if not subsequences[candidate].may_reach(text, threshold):
                continue
            matchers[candidate].set_seq1(text)
            if matchers[candidate].ratio() >= threshold:
                cluster.append(candidate)
                break
        else:
            cluster.append(len(leaders))
            leaders.append(number)
            matchers.append(SequenceMatcher(None, "", text))  # indexes the leader once
            subsequences.append(_Subsequence(text))
    return [cluster[i] for i in ids.tolist()]


def merge_similar_states(table: TurnTable, threshold: float = 0.95, *, order: Order = "first_turn") -> TurnTable:
    """Replace every state text by the first text of its cluster, per group; rows of weight 0 keep theirs.

    The table then goes to an estimator as usual: nodes are clusters.

    Args:
        table: A table whose `state` column holds texts.
        threshold: Least similarity, in (0, 1). GiGPO's search runs use 0.9.
        order: Order in which the distinct texts of a group meet the leader rule. `first_turn` sorts them by the first
            turn they appear at and by text, so that the order of rows does not matter; `row` takes the order of rows,
            as verl-agent does.

    Returns:
        A new table.
    """
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(map(repr, get_args(Order)))}, got {order!r}.")
    index = table.index
    state, next_state = list(table.state), None if table.next_state is None else list(table.next_state)
    last = np.zeros(len(index.position), np.bool_)
    last[index.last] = True
    by_group = np.argsort(index.group, kind="stable")
    for rows in np.split(by_group, np.cumsum(np.bincount(index.group, minlength=index.num_groups))[:-1]):
        rows = rows[np.argsort(index.position[rows])]
        position = index.position[rows].tolist()
        leader = _leaders([state[row] for row in position], index.t[rows].tolist(), threshold, order)
        for row in position:
            state[row] = leader[state[row]]
        if next_state is not None:
            for row in index.position[rows[last[rows]]].tolist():
                next_state[row] = leader.get(next_state[row], next_state[row])
    return dataclasses.replace(table, state=state, next_state=next_state)


def _leaders(texts: list[str], turns: list[int], threshold: float, order: Order) -> dict[str | None, str]:
    """Leader of each distinct text of one group."""
    first_turn: dict[str, int] = {}
    for text, turn in zip(texts, turns, strict=True):
        if not isinstance(text, str):
            raise TypeError(f"Similarity needs texts in the state column, got {type(text).__name__} {text!r}.")
        first_turn[text] = min(turn, first_turn.get(text, turn))
    distinct = list(first_turn)
    if order == "first_turn":
        distinct.sort(key=lambda text: (first_turn[text], text))
    clusters = cluster_texts(distinct, threshold)
    leader: dict[int, str] = {}
    for text, cluster in zip(distinct, clusters, strict=True):
        leader.setdefault(cluster, text)
    return {text: leader[cluster] for text, cluster in zip(distinct, clusters, strict=True)}


class _Bounds:
    """Upper bounds of `ratio() = 2 M / (len(a) + len(b))`, M the letters in matching blocks, for many texts at once."""

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        self._threshold = threshold
        self._length = np.array([len(text) for text in texts], np.int64)
        codes = [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64) for text in texts]
        self._letters = _histograms(codes, _LETTER_BINS)
        self._pairs = _histograms([code[:-1] * 31 + code[1:] for code in codes], _PAIR_BINS)

    def candidates(self, text: int, others: list[int]) -> list[int]:
        """Places in `others` that may be similar enough to `text`, ascending."""
        place = np.arange(len(others))
        other = np.array(others, np.int64)
        length = self._length[text]
        total = length + self._length[other]

        def keep(most: NDArray[np.int64]) -> None:
            nonlocal place, other, total
            # The very formula of difflib, so that rounding cannot rule out a pair that ratio() would accept.
            possible = 2.0 * most / np.maximum(total, 1) >= self._threshold
            place, other, total = place[possible], other[possible], total[possible]

        keep(np.minimum(length, self._length[other]))
        keep(np.minimum(self._letters[text], self._letters[other]).sum(1, dtype=np.int64))
        # M letters in r blocks keep M - r pairs, and r - 1 <= (len(a) - M) + (len(b) - M) gaps lie between the blocks.
        shared = np.minimum(self._pairs[text], self._pairs[other]).sum(1, dtype=np.int64)
        keep((shared + total + 1) // 3)
        return place.tolist()


class _Subsequence:
    """The last upper bound: matching blocks are a common subsequence, so M is at most the longest one's length.

    Bit-parallel (Hyyro 2004): one addition of integers as wide as the leader per letter of the text.
    """

    def __init__(self, leader: str) -> None:
        self._length = len(leader)
        self._places: dict[str, int] = {}
        for place, letter in enumerate(leader):
            self._places[letter] = self._places.get(letter, 0) | 1 << place

    def may_reach(self, text: str, threshold: float) -> bool:
        """Whether the bound allows `ratio() >= threshold`; gives up as soon as too few letters are left."""
        total = self._length + len(text)
        everything = (1 << self._length) - 1
        unmatched = everything
        for start in range(0, len(text), _STRIDE):
            for letter in text[start : start + _STRIDE]:
                hits = unmatched & self._places.get(letter, 0)
                unmatched = ((unmatched + hits) | (unmatched - hits)) & everything
            rest = max(len(text) - start - _STRIDE, 0)
            most = self._length - unmatched.bit_count() + rest
            if 2.0 * most / total < threshold:
                return False
        return True


def _histograms(codes: list[NDArray[np.int64]], num_bins: int) -> NDArray[np.int32]:
    rows = [np.bincount(code % num_bins, minlength=num_bins) for code in codes]
    return np.array(rows, np.int32).reshape(len(codes), num_bins)
