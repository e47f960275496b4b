"""Turns with integer ids, sorted by trajectory and turn: what the estimators compute on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from agent_envs.trainers.advantages.segments import (
    FloatArray,
    IntArray,
    intern,
    intern_pairs,
    segment_range,
    segment_sum,
)

if TYPE_CHECKING:
    from agent_envs.trainers.advantages.table import TurnTable

Key = str | bytes | int
BoolArray = NDArray[np.bool_]

# Outcomes closer than this carry no signal: the group is left out by DAPO's dynamic sampling.
OUTCOME_SPREAD = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnIndex:
    """The m rows of weight 1. Trajectories are contiguous and in turn order, so row i + 1 follows row i."""

    position: IntArray
    """Row of the table, int64 [m]."""
    group: IntArray
    """Group id, int64 [m]."""
    traj: IntArray
    """Trajectory id, int64 [m]."""
    t: IntArray
    """Turn, int64 [m]."""
    node: IntArray
    """Id of (group, state) in 0..num_nodes-1, int64 [m]; nodes that were only reached have ids too."""
    next_node: IntArray
    """Id of the node reached, int64 [m]; -1 on last rows without a `next_state`."""
    reward: FloatArray
    """Reward without penalty, float64 [m]."""
    invalid: FloatArray
    """1 for an invalid action, else 0, float64 [m]."""
    start: IntArray
    """First row of each trajectory, int64 [num_trajs]."""
    length: IntArray
    """Number of turns of each trajectory, int64 [num_trajs]."""
    traj_group: IntArray
    """Group of each trajectory, int64 [num_trajs]."""
    success: BoolArray
    """Whether each trajectory solved its task, bool [num_trajs]."""
    terminated: BoolArray
    """Whether the environment ended each trajectory, bool [num_trajs]."""
    outcome: FloatArray
    """Sum of rewards of each trajectory without penalty, float64 [num_trajs]."""
    spread: BoolArray
    """Whether the outcomes of each group differ, bool [num_groups]."""
    num_groups: int
    num_trajs: int
    num_nodes: int

    @property
    def last(self) -> IntArray:
        """Last row of each trajectory, int64 [num_trajs]."""
        return self.start + self.length - 1


def build_index(table: TurnTable, kept: IntArray) -> TurnIndex:
    """Intern, check and sort the rows `kept` of a table.

    Args:
        table: A table whose columns have been checked one by one.
        kept: Rows of weight 1, int64 [m], ascending.

    Raises:
        ValueError: If the rows of a trajectory do not fit together.
    """
    group, num_groups = intern(_take(table.group, kept))
    traj_key, _ = intern(_take(table.traj, kept))
    traj, num_trajs = intern_pairs(group, traj_key)
    length = np.bincount(traj, minlength=num_trajs)
    start = np.cumsum(length) - length
    order = _turn_order(table, kept, traj, start, length)

    position, group, traj = kept[order], group[order], traj[order]
    last = start + length - 1
    _check_ends(table, position, traj, start, last)
    node, num_nodes, next_node = _nodes(table, position, group, last)
    reward = cast(FloatArray, table.reward)[position]
    # Summed in turn order whatever the row order, so the row order cannot change the last bit.
    outcome = segment_sum(reward, traj, num_trajs)
    low, high = segment_range(outcome, group[start], num_groups)
    return TurnIndex(
        position=position,
        group=group,
        traj=traj,
        t=cast(IntArray, table.t)[position],
        node=node,
        next_node=next_node,
        reward=reward,
        invalid=(~cast(BoolArray, table.valid)[position]).astype(np.float64),
        start=start,
        length=length,
        traj_group=group[start],
        success=cast(BoolArray, table.success)[position[start]],
        terminated=cast(BoolArray, table.terminated)[position[last]],
        outcome=outcome,
        spread=high - low > OUTCOME_SPREAD,
        num_groups=num_groups,
        num_trajs=num_trajs,
        num_nodes=num_nodes,
    )


def _take(column: Any, rows: IntArray) -> list[Hashable]:
    keys: list[Hashable] = column
    return keys if len(rows) == len(keys) else [keys[row] for row in rows]


def _name(table: TurnTable, row: int) -> str:
    return f"trajectory (group {table.group[row]!r}, traj {table.traj[row]!r})"


def _turn_order(table: TurnTable, kept: IntArray, traj: IntArray, start: IntArray, length: IntArray) -> IntArray:
    """Order that sorts by (trajectory, turn): a scatter, since the turns of T rows must be exactly 0..T-1."""
    t = cast(IntArray, table.t)[kept]
    outside = np.flatnonzero((t < 0) | (t >= length[traj]))
    if outside.size:
        row = int(kept[outside[0]])
        raise ValueError(
            f"Row {row}: {_name(table, row)} has turn t={t[outside[0]]} but {length[traj[outside[0]]]} rows; the turns "
            "of a trajectory must be 0..T-1 without a gap."
        )
    slot = start[traj] + t
    order = np.full(len(t), -1)
    order[slot] = np.arange(len(t))
    repeated = np.flatnonzero(order[slot] != np.arange(len(t)))
    if repeated.size:
        row, twin = int(kept[repeated[0]]), int(kept[order[slot[repeated[0]]]])
        raise ValueError(
            f"Row {row}: {_name(table, row)} has turn t={t[repeated[0]]} twice (also row {twin}); "
            "give padding rows weight 0."
        )
    return order


def _check_ends(table: TurnTable, position: IntArray, traj: IntArray, start: IntArray, last: IntArray) -> None:
    for name in ("terminated", "truncated"):
        early = getattr(table, name)[position].copy()
        early[last] = False
        if early.any():
            row = int(position[early].min())
            raise ValueError(
                f"Row {row}: {name} is set, but {_name(table, row)} goes on after turn {cast(IntArray, table.t)[row]}; "
                "set it on the last row only."
            )
    success = cast(BoolArray, table.success)[position]
    differs = success != success[start][traj]
    if differs.any():
        row = int(position[differs].min())
        raise ValueError(f"Row {row}: success must be the same on all rows of {_name(table, row)}.")


def _nodes(table: TurnTable, position: IntArray, group: IntArray, last: IntArray) -> tuple[IntArray, int, IntArray]:
    """Node left and node reached by each sorted row, and the number of nodes."""
    num_rows = len(position)
    final: list[Any] = [None] * len(last)
    if table.next_state is not None:
        final = [table.next_state[row] for row in position[last].tolist()]
    known = np.fromiter((key is not None for key in final), np.bool_, len(final))
    # Every key of the column, those of weight 0 too: their nodes stay empty.
    state, _ = intern([*table.state, *(key for key in final if key is not None)])
    acted_and_final = np.concatenate([state[position], state[len(table) :]])
    node, num_nodes = intern_pairs(np.concatenate([group, group[last[known]]]), acted_and_final)

    next_node = np.full(num_rows, -1)
    next_node[:-1] = node[1:num_rows]
    next_node[last] = -1
    next_node[last[known]] = node[num_rows:]
    return node[:num_rows], num_nodes, next_node
