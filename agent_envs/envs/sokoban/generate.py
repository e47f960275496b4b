"""Seeded level generation: random topology, then reverse play from the solved position.

The method is that of gym-sokoban (topology, reverse play) and RAGEN (random walk of the player at the end), written
new. Two faults of the original reverse play are absent: states are never shared between branches, and the box pulled
last is passed on. Every random number comes from the level's own generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from agent_envs.envs.sokoban.rules import (
    BOX,
    FLOOR,
    OPPOSITE,
    PLAYER,
    PLAYER_ON_TARGET,
    STEPS,
    TARGET,
    WALL,
    Level,
    neighbours,
)
from agent_envs.envs.sokoban.solver import solve

GENERATOR_VERSION = 1
"""Raised whenever a seed gives another level; part of every fingerprint."""

_P_CHANGE = 0.35
_STEPS_PER_CELL_OF_SIDE = 1.7
_TRIES_PER_ATTEMPT = 4
_MAX_ATTEMPTS = 50
_MAX_STATES = 300_000
_MAX_WALK = 3

# The five 3 x 3 masks, as (row, column) offsets from the digger.
_MASKS = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, 0), (0, -1), (1, 0), (1, -1)),
    ((0, 0), (0, 1), (1, 0)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelParams:
    """What determines the level of a seed.

    Raises:
        ValueError: For a value out of range; the text names it.
    """

    height: int
    """Rows with the border walls, at least 5."""
    width: int
    """Columns with the border walls, at least 5."""
    num_boxes: int
    """Boxes, and as many targets."""
    search_depth: int
    """Depth limit of the reverse play, in moves."""
    solvable_within: int | None = None
    """Largest number of moves of a shortest solution, None for any."""

    def __post_init__(self) -> None:
        """Check types and ranges."""
        _check_int("dim_room rows", self.height, 5)
        _check_int("dim_room columns", self.width, 5)
        _check_int("num_boxes", self.num_boxes, 1)
        _check_int("search_depth", self.search_depth, 1)
        if self.solvable_within is not None:
            _check_int("require_solvable_within", self.solvable_within, 1)


def _check_int(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{name} must be an int >= {low}, got {value!r}.")


@lru_cache(maxsize=4096)
def generate_level(params: LevelParams, seed: int) -> Level:
    """Return the level of a seed: the same in every process and on every host.

    Cached, so that the members of a group share one search. Attempt ``a`` draws from ``SeedSequence([seed, a])``.

    Raises:
        ValueError: If 50 attempts give no level.
    """
    for attempt in range(_MAX_ATTEMPTS):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, attempt])))
        for _ in range(_TRIES_PER_ATTEMPT):
            level = _try_level(params, rng)
            if level is None:
                continue
            if params.solvable_within is None or solve(level.room, level.width, max_moves=params.solvable_within):
                return level
            break  # too long: the next attempt, not the next try, so that the option leaves short levels as they are
    limit = "" if params.solvable_within is None else f", require_solvable_within={params.solvable_within}"
    raise ValueError(
        f"No level in {_MAX_ATTEMPTS} attempts for seed {seed} with dim_room=[{params.height}, {params.width}], "
        f"num_boxes={params.num_boxes}, search_depth={params.search_depth}{limit}. "
        "Use a larger room, fewer boxes or weaker limits."
    )


def _try_level(params: LevelParams, rng: np.random.Generator) -> Level | None:
    height, width, num_boxes = params.height, params.width, params.num_boxes
    layout = _topology(height, width, rng)
    floor = [cell for cell, code in enumerate(layout) if code == FLOOR]
    if len(floor) < num_boxes + 2:
        return None
    order = rng.permutation(len(floor))[: num_boxes + 1].tolist()
    player, *targets = (floor[i] for i in order)
    played = _reverse_play(floor, height, width, player, targets, params.search_depth)
    if played is None:
        return None
    room = bytearray(layout)
    for cell in targets:
        room[cell] = TARGET
    for cell in played.boxes:
        room[cell] = BOX
    player = _walk(room, played, height, width, rng)
    room[player] = PLAYER_ON_TARGET if room[player] == TARGET else PLAYER
    return Level(bytes(room), width)


def _topology(height: int, width: int, rng: np.random.Generator) -> bytearray:
    """Dig the floor along a random walk; return walls and floor."""
    num_steps = int(_STEPS_PER_CELL_OF_SIDE * (height + width))
    direction = int(rng.integers(4))
    row, column = int(rng.integers(1, height - 1)), int(rng.integers(1, width - 1))
    # Drawn in bulk: a scalar draw costs as much as the rest of a step.
    changes = (rng.random(num_steps) < _P_CHANGE).tolist()
    directions = rng.integers(4, size=num_steps).tolist()
    masks = rng.integers(len(_MASKS), size=num_steps).tolist()
    layout = bytearray(height * width)
    for change, new_direction, mask in zip(changes, directions, masks, strict=True):
        if change:
            direction = new_direction
        row_step, column_step = STEPS[direction]
        row = min(max(row + row_step, 1), height - 2)
        column = min(max(column + column_step, 1), width - 2)
        for row_offset, column_offset in _MASKS[mask]:
            layout[(row + row_offset) * width + column + column_offset] = FLOOR
    layout[:width] = layout[-width:] = bytes(width)
    for start in range(0, height * width, width):
        layout[start] = layout[start + width - 1] = WALL
    return layout


class _Played(NamedTuple):
    """The best state of a reverse play."""

    player: int
    boxes: tuple[int, ...]
    displacement: int
    """Sum of the Manhattan distances of the boxes from their targets."""


def _reverse_play(
    floor: list[int], height: int, width: int, player: int, targets: list[int], search_depth: int
) -> _Played | None:
    """Pull boxes off their targets, depth first; return the best state, None if no box can leave.

    The best state has the largest number of box swaps (changes of the box being pulled) times displacement, the first
    of equals; a state with a box on a target counts 0.

    A stack of pending visits replaces recursion: a state is judged and marked when it is popped, so the order of
    visits is that of the recursion. States are integers over floor cells: one bit per box, then the player.
    """
    number = {cell: i for i, cell in enumerate(floor)}
    ahead = [[number.get(table[cell], -1) for cell in floor] for table in neighbours(height, width)]
    # Last direction first: the stack reverses the order.
    moves = [(ahead[direction], ahead[OPPOSITE[direction]]) for direction in (3, 2, 1, 0)]
    bits = [len(floor) << i for i in range(len(floor))]
    homes = tuple(number[cell] for cell in targets)
    distance = [
        [abs(cell // width - home // width) + abs(cell % width - home % width) for cell in floor] for home in targets
    ]
    seen: set[int] = set()
    best_score, best = 0, (0, homes, 0)
    key = sum(bits[home] for home in homes)
    stack = [(number[player], key, homes, 0, -1, 0, search_depth)]
    while stack and len(seen) < _MAX_STATES:
        at, boxes_key, boxes, swaps, last, displacement, depth = stack.pop()
        if boxes_key + at in seen:
            continue
        seen.add(boxes_key + at)
        if swaps * displacement > best_score and not any(box in homes for box in boxes):
            best_score, best = swaps * displacement, (at, boxes, displacement)
        if not depth:
            continue
        for forward, backward in moves:
            to = forward[at]
            if to < 0 or to in boxes:
                continue
            pulled = backward[at]
            if pulled in boxes:
                child_key = boxes_key - bits[pulled] + bits[at]
                if child_key + to not in seen:
                    i = boxes.index(pulled)
                    moved = (*boxes[:i], at, *boxes[i + 1 :])
                    away = displacement + distance[i][at] - distance[i][pulled]
                    stack.append((to, child_key, moved, swaps + (i != last), i, away, depth - 1))
            elif boxes_key + to not in seen:
                stack.append((to, boxes_key, boxes, swaps, last, displacement, depth - 1))
    if not best_score:
        return None
    at, boxes, displacement = best
    return _Played(floor[at], tuple(floor[box] for box in boxes), displacement)


def _walk(room: bytearray, played: _Played, height: int, width: int, rng: np.random.Generator) -> int:
    """Let the player walk a little, so that it does not always stand behind the box pulled last."""
    player = played.player
    if rng.random() >= (0.8 if played.displacement == 1 else 0.5):
        return player
    visited = {player}
    for _ in range(_MAX_WALK):
        options = [table[player] for table in neighbours(height, width)]
        free = [cell for cell in options if room[cell] in (FLOOR, TARGET) and cell not in visited]
        if not free:
            break
        player = free[int(rng.integers(len(free)))]
        visited.add(player)
        if rng.random() >= 0.5:
            break
    return player
