"""The input and the output of every advantage estimator: a table of turns, and one advantage per turn.

One row is one agent turn: one environment step of one trajectory. Estimators see nothing else, no environment, no
tokens and no text, so a table can be built from any rollout code.
"""

from __future__ import annotations

import array
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_envs.trainers.advantages.index import Key, TurnIndex, build_index
from agent_envs.trainers.advantages.segments import FloatArray

KeyColumn = Sequence[Key] | NDArray[Any]

# Sums of squares of anything up to this size stay finite, so no estimator can overflow.
MAX_REWARD = 1e100


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnTable:
    """Columns of equal length n, one entry per turn, rows in any order.

    Keys (`group`, `traj`, `state`, `next_state`) are `str`, `bytes` or `int`. A trajectory is the pair
    (group, traj) and a state group (node) the pair (group, state), so equal keys in two groups never mix.
    The columns are checked and copied when the table is made; a bad one raises `ValueError` or `TypeError` that
    names the row, counted from 0. Rows of weight 0 are exempt from the checks across rows.
    """

    group: KeyColumn
    """Task group: the N trajectories that start in one initial state. From the sampler, never from a text."""
    traj: KeyColumn
    """Trajectory inside the group."""
    t: ArrayLike
    """Turn index, int64 [n]; per trajectory exactly 0..T-1."""
    state: KeyColumn
    """Key of the state the turn acted in."""
    next_state: Sequence[Key | None] | NDArray[Any] | None = None
    """Key of the state reached, `None` where there is none. Read on the last row of a trajectory only, since
    inside a trajectory it is the state of the next row."""
    reward: ArrayLike
    """Reward of the environment, float64 [n], without the penalty for invalid actions."""
    valid: ArrayLike
    """Whether the action was valid, bool [n]. The caller chooses which flag that is (format or action)."""
    terminated: ArrayLike
    """The environment ended, bool [n]; on the last row of a trajectory only."""
    truncated: ArrayLike
    """A limit ended the trajectory, bool [n]; on the last row of a trajectory only."""
    success: ArrayLike
    """The task was solved, bool [n]; the same on all rows of a trajectory."""
    weight: ArrayLike | None = None
    """1 for a real row, 0 for padding and error rows, [n]. Rows of weight 0 enter no statistics and get 0."""
    value: ArrayLike | None = None
    """Critic's value of the state acted in, float64 [n]. Only `gae` needs it."""
    next_value: ArrayLike | None = None
    """Critic's value of the state reached, float64 [n]; `gae` reads it on the last row of a trajectory that did not
    terminate. Without it such a trajectory is worth 0 after its end."""
    index: TurnIndex = field(init=False, repr=False)
    """The rows of weight 1 with integer ids, sorted by trajectory and turn; made from the columns."""

    def __post_init__(self) -> None:
        """Check the columns and intern the keys."""
        put = object.__setattr__
        for name in ("group", "traj", "state", "next_state"):
            column = getattr(self, name)
            if column is not None:
                put(self, name, _key_column(name, column))
        num_rows = len(self.state)
        for name in ("group", "traj", "next_state"):
            column = getattr(self, name)
            if column is not None:
                _check_length(name, len(column), num_rows)
        put(self, "t", _int_column("t", self.t, num_rows))
        for name in ("reward", "value", "next_value"):
            if getattr(self, name) is not None:
                put(self, name, _float_column(name, getattr(self, name), num_rows))
        for name in ("valid", "terminated", "truncated", "success", "weight"):
            if getattr(self, name) is not None:
                put(self, name, _bool_column(name, getattr(self, name), num_rows))
        kept = np.arange(num_rows) if self.weight is None else np.flatnonzero(self.weight)
        for name in ("reward", "value"):
            if getattr(self, name) is not None:
                _check_finite(name, getattr(self, name), kept)
        put(self, "index", build_index(self, kept))

    def __len__(self) -> int:
        """Number of rows, those of weight 0 included."""
        return len(self.state)

    def step_group_sizes(self) -> NDArray[np.int64]:
        """Number of rows that share the node (group, state) of each row, int64 [n]; 0 for rows of weight 0.

        Its histogram is the distribution of step-group sizes of the GiGPO paper (arXiv 2505.10978, Fig. 5).
        """
        sizes = np.zeros(len(self), np.int64)
        sizes[self.index.position] = np.bincount(self.index.node, minlength=self.index.num_nodes)[self.index.node]
        return sizes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Advantages:
    """What an estimator returns: one number per row of its table, in the row order of the table."""

    total: FloatArray
    """The advantage, float64 [n]; 0 on rows of weight 0. Broadcast it over the tokens of the turn's response."""
    parts: dict[str, FloatArray]
    """The terms of the advantage (`episode`, `step`, `node`, `edge`) before weighting, and the quantities they were
    computed from (`return`, `value`, `next_value`, ...), each float64 [n]."""
    stats: dict[str, float]
    """Figures to log, see `table_stats`."""


def make_advantages(table: TurnTable, total: FloatArray, parts: Mapping[str, FloatArray]) -> Advantages:
    """Put arrays in the order of `table.index` back into the row order of the table, with 0 on rows of weight 0.

    Args:
        table: The table.
        total: Advantage per sorted row, float64 [m].
        parts: Named arrays like `total`.
    """

    def scatter(values: FloatArray) -> FloatArray:
        out = np.zeros(len(table))
        out[table.index.position] = values
        return out

    return Advantages(
        total=scatter(total), parts={name: scatter(part) for name, part in parts.items()}, stats=table_stats(table)
    )


def table_stats(table: TurnTable) -> dict[str, float]:
    """Figures that tell whether a batch can teach anything; rows of weight 0 do not count.

    Returns:
        `rows`, `trajectories`, `groups`; `state_groups` (number of nodes), `singleton_row_share` (rows whose node holds
        no other row), `mean_group_size` (rows per node); `groups_below_two` (fewer than two trajectories left, episode
        part 0) and `groups_without_spread` (all outcomes equal).
    """
    index = table.index
    num_rows = len(index.position)
    node_size = np.bincount(index.node, minlength=index.num_nodes)
    num_nodes = int(np.sum(node_size > 0))
    members = np.bincount(index.traj_group, minlength=index.num_groups)
    return {
        "rows": float(num_rows),
        "trajectories": float(index.num_trajs),
        "groups": float(index.num_groups),
        "state_groups": float(num_nodes),
        "singleton_row_share": float(np.sum(node_size == 1) / max(num_rows, 1)),
        "mean_group_size": float(num_rows / max(num_nodes, 1)),
        "groups_below_two": float(np.sum(members < 2)),
        "groups_without_spread": float(np.sum(~index.spread)),
    }


def _check_length(name: str, length: int, num_rows: int) -> None:
    if length != num_rows:
        raise ValueError(f"Columns must be equally long: {name!r} has {length} rows, 'state' has {num_rows}.")


def _key_column(name: str, column: KeyColumn) -> list[Any]:
    if isinstance(column, str | bytes):
        raise TypeError(f"Column {name!r} must be a sequence of keys, got one {type(column).__name__}.")
    keys: list[Any] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    for kind in set(map(type, keys)):
        # bool and float would meet ints of equal value in one dict slot: True == 1 == 1.0.
        if issubclass(kind, str | bytes | int | np.integer) and kind is not bool:
            continue
        if kind is type(None) and name == "next_state":
            continue
        row = next(i for i, key in enumerate(keys) if type(key) is kind)
        raise TypeError(
            f"Row {row}: {name} must be a str, bytes or int key, got {kind.__name__} {_short(keys[row])}. "
            "Use the environment's state_key, or a digest of the object."
        )
    return keys


def _short(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."


def _array(name: str, column: ArrayLike, num_rows: int, typecode: str) -> NDArray[Any]:
    numbers = np.array(_packed(column, typecode))
    if numbers.ndim != 1:
        raise ValueError(f"Column {name!r} must have shape [n], got shape {list(numbers.shape)}.")
    _check_length(name, len(numbers), num_rows)
    return numbers


def _packed(column: ArrayLike, typecode: str) -> ArrayLike:
    """A list as a typed buffer, which numpy copies at once; anything odd is left for numpy to judge."""
    if isinstance(column, list):
        with contextlib.suppress(TypeError, OverflowError):
            return array.array(typecode, column)
    return column


def _freeze(numbers: NDArray[Any]) -> NDArray[Any]:
    numbers.flags.writeable = False
    return numbers


def _int_column(name: str, column: ArrayLike, num_rows: int) -> NDArray[np.int64]:
    numbers = _array(name, column, num_rows, "q")
    if num_rows and numbers.dtype.kind not in "iu":
        raise TypeError(f"Column {name!r} must hold integers, got dtype {numbers.dtype}.")
    return _freeze(numbers.astype(np.int64))


def _float_column(name: str, column: ArrayLike, num_rows: int) -> FloatArray:
    numbers = _array(name, column, num_rows, "d")
    if num_rows and numbers.dtype.kind not in "iufb":
        raise TypeError(f"Column {name!r} must hold numbers, got dtype {numbers.dtype}.")
    return _freeze(numbers.astype(np.float64))


def _bool_column(name: str, column: ArrayLike, num_rows: int) -> NDArray[np.bool_]:
    numbers = _array(name, column, num_rows, "b")
    if num_rows and numbers.dtype.kind not in "biuf":
        raise TypeError(f"Column {name!r} must hold booleans, got dtype {numbers.dtype}.")
    bad = np.flatnonzero((numbers != 0) & (numbers != 1))
    if bad.size:
        raise ValueError(f"Row {bad[0]}: {name} must be 0 or 1, got {numbers[bad[0]]}.")
    return _freeze(numbers.astype(np.bool_))


def _check_finite(name: str, column: FloatArray, kept: NDArray[np.int64]) -> None:
    bad = kept[~(np.abs(column[kept]) <= MAX_REWARD)]  # NaN compares false
    if bad.size:
        row = bad[0]
        raise ValueError(f"Row {row}: {name} must be finite and at most {MAX_REWARD:g} in size, got {column[row]}.")
