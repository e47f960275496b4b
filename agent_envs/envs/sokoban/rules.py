"""Codes, directions and the pure transition of Sokoban.

A room is a ``bytes`` of ``height * width`` cell codes, row by row. At this size indexing bytes is several times faster
than indexing a numpy array, and the value is hashable, so it keys caches and searches as it is.

The rules are those of gym-sokoban 0.0.6, replayed in the tests from recorded rooms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
"""Cell codes; the last one tells a player on a target from a player on the floor."""

WORDS = ("up", "down", "left", "right")
"""Words of the directions 0-3 of this module."""
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""(row, column) change of each direction; row 0 is on top."""
OPPOSITE = (1, 0, 3, 2)

_CODES = bytes(range(7))
_TO_FIXED = bytes.maketrans(_CODES, bytes((WALL, FLOOR, TARGET, TARGET, FLOOR, FLOOR, TARGET)))
_TO_DIGITS = bytes.maketrans(_CODES, b"0123456")
_FROM_DIGITS = bytes.maketrans(b"0123456", _CODES)

# What a cell becomes when the player or a box enters it, and what is left when they go.
_PLAYER_ENTERS = (-1, PLAYER, PLAYER_ON_TARGET, PLAYER_ON_TARGET, PLAYER)
_PLAYER_LEAVES = (-1, -1, -1, -1, -1, FLOOR, TARGET)
_BOX_ENTERS = (-1, BOX, BOX_ON_TARGET)


class Level(NamedTuple):
    """A start position."""

    room: bytes
    """Cell codes, ``height * width`` of them, row by row."""
    width: int

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.room) // self.width

    @property
    def num_boxes(self) -> int:
        """Number of boxes, equal to the number of targets."""
        return self.room.count(BOX) + self.room.count(BOX_ON_TARGET)


class Transition(NamedTuple):
    """Outcome of one move."""

    room: bytes
    player: int
    """Flat index of the player's cell."""
    moved: bool
    """The player changed its cell, with or without a box."""
    pushed: bool
    """A box changed its cell."""
    change: int
    """Change in the number of boxes on targets: -1, 0 or 1."""


@lru_cache(maxsize=256)
def neighbours(height: int, width: int) -> tuple[tuple[int, ...], ...]:
    """Return for each direction the flat index of each cell's neighbour, -1 outside the grid."""
    table = []
    for row_step, column_step in STEPS:
        cells = []
        for cell in range(height * width):
            row, column = cell // width + row_step, cell % width + column_step
            inside = 0 <= row < height and 0 <= column < width
            cells.append(row * width + column if inside else -1)
        table.append(tuple(cells))
    return tuple(table)


def find_player(room: bytes) -> int:
    """Return the flat index of the player's cell."""
    cell = room.find(PLAYER)
    return cell if cell >= 0 else room.index(PLAYER_ON_TARGET)


def move(room: bytes, width: int, player: int, direction: int, *, push: bool = True) -> Transition:
    """Apply one move; a blocked one returns the same room with ``moved=False``.

    Args:
        room: Cell codes.
        width: Number of columns.
        player: Flat index of the player's cell.
        direction: 0-3 for up, down, left, right.
        push: Whether a box ahead is pushed; without it a box blocks (gym-sokoban's actions 5-8).
    """
    ahead = neighbours(len(room) // width, width)[direction]
    cell = ahead[player]
    code = room[cell] if cell >= 0 else WALL
    if code == FLOOR or code == TARGET:
        cells = bytearray(room)
        cells[player] = _PLAYER_LEAVES[room[player]]
        cells[cell] = _PLAYER_ENTERS[code]
        return Transition(bytes(cells), cell, True, False, 0)
    if push and (code == BOX or code == BOX_ON_TARGET):
        behind = ahead[cell]
        landing = room[behind] if behind >= 0 else WALL
        if landing == FLOOR or landing == TARGET:
            cells = bytearray(room)
            cells[player] = _PLAYER_LEAVES[room[player]]
            cells[cell] = _PLAYER_ENTERS[code]
            cells[behind] = _BOX_ENTERS[landing]
            return Transition(bytes(cells), cell, True, True, (landing == TARGET) - (code == BOX_ON_TARGET))
    return Transition(room, player, False, False, 0)


def fixed_layout(room: bytes) -> bytes:
    """Return walls, floor and targets only (codes 0, 1, 2)."""
    return room.translate(_TO_FIXED)


def digit_rows(room: bytes, width: int) -> list[str]:
    """Return one string of code digits per row: the canonical form of a room."""
    digits = room.translate(_TO_DIGITS).decode("ascii")
    return [digits[start : start + width] for start in range(0, len(digits), width)]


def from_digit_rows(rows: list[str]) -> bytes:
    """Return the room that :func:`digit_rows` wrote.

    Raises:
        ValueError: If a row holds anything but the digits 0-6.
    """
    text = "".join(rows)
    if not set(text) <= set("0123456"):
        raise ValueError(f"A room consists of the digits 0-6, got {text!r}.")
    return text.encode("ascii").translate(_FROM_DIGITS)
