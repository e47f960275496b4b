"""Text and image views of a room.

The seven tiles are drawn here from rectangles, lines and discs in flat colours; no sprite is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from agent_envs.envs.sokoban.rules import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

SYMBOLS = "#_O√XPS"
"""Symbols by cell code: wall, floor, target, box on target, box, player, player on target."""
GRID_STYLES = ("spaced", "compact")

_CELLS = {
    "spaced": tuple(f" {symbol} \t" for symbol in SYMBOLS),
    "compact": tuple(SYMBOLS),
}

_MAX_FRAMES = 4096
_MAX_CACHE_BYTES = 128 << 20  # of one size of frame
_SAMPLES = 8  # per pixel and axis: smooth edges, and the same drawing at every tile size

_WALL_BRICK, _MORTAR = (101, 110, 132), (58, 64, 82)
_FLOOR_FACE, _FLOOR_EDGE = (240, 234, 220), (222, 213, 194)
_TARGET_FACE = (222, 52, 52)
_BOX_FACE, _BOX_FRAME = (247, 197, 66), (166, 105, 20)
_DONE_FACE, _DONE_FRAME = (84, 200, 108), (20, 112, 52)
_SKIN, _SHIRT, _TROUSERS = (246, 178, 130), (42, 96, 224), (28, 36, 84)

_Mask = npt.NDArray[np.bool_]
_Image = npt.NDArray[np.uint8]


def grid_text(room: bytes, width: int, style: str) -> str:
    """Return a room as text, one line per row.

    Args:
        room: Cell codes.
        width: Number of columns.
        style: ``"spaced"``: each cell is blank, symbol, blank, tab. ``"compact"``: symbols only.
    """
    cells = _CELLS[style]
    text = "".join(map(cells.__getitem__, room))
    columns = len(cells[0]) * width  # all cells of a style have the same length
    return "\n".join([text[start : start + columns] for start in range(0, len(text), columns)])


def frame(room: bytes, width: int, tile: int) -> _Image:
    """Return a room as a new ``(height * tile, width * tile, 3) uint8`` array."""
    return _frames(len(room) // width, width, tile)(room).copy()


@lru_cache(maxsize=4)
def _frames(height: int, width: int, tile: int) -> Callable[[bytes], _Image]:
    """Return the cached painter of one size, shared by all environments of the process."""
    bank = tile_bank(tile)

    def paint(room: bytes) -> _Image:
        codes = np.frombuffer(room, np.uint8).reshape(height, width)
        pixels = bank[codes].transpose(0, 2, 1, 3, 4)  # (height, tile, width, tile, 3)
        return pixels.reshape(height * tile, width * tile, 3)

    frame_bytes = height * width * tile * tile * 3
    return lru_cache(maxsize=max(1, min(_MAX_FRAMES, _MAX_CACHE_BYTES // frame_bytes)))(paint)


@lru_cache(maxsize=64)
def tile_bank(tile: int) -> _Image:
    """Return the drawings of all cell codes, ``(7, tile, tile, 3) uint8``, read-only."""
    bank = np.stack([_shrink(_draw(code, tile * _SAMPLES), tile) for code in range(len(SYMBOLS))])
    bank.flags.writeable = False
    return bank


def _shrink(image: _Image, tile: int) -> _Image:
    # Sums of integers, so that every machine rounds alike.
    sums = image.reshape(tile, _SAMPLES, tile, _SAMPLES, 3).sum(axis=(1, 3), dtype=np.int64)
    area = _SAMPLES * _SAMPLES
    pixels: _Image = ((sums + area // 2) // area).astype(np.uint8)
    return pixels


def _draw(code: int, size: int) -> _Image:
    """Draw one tile, ``(size, size, 3) uint8``; shapes are in sixteenths of the tile."""
    y, x = ((np.arange(size) + 0.5) * 16 / size)[:, None], ((np.arange(size) + 0.5) * 16 / size)[None, :]

    def rectangle(top: float, left: float, bottom: float, right: float) -> _Mask:
        return (y >= top) & (y < bottom) & (x >= left) & (x < right)

    def disc(row: float, column: float, radius: float) -> _Mask:
        return (y - row) ** 2 + (x - column) ** 2 < radius**2

    image = np.empty((size, size, 3), np.uint8)
    if code == WALL:
        image[:] = _MORTAR
        for top, shift in ((0, 0), (4, 4), (8, 0), (12, 4)):
            # Bricks are 8 wide and 4 high with a mortar line of 1; every second course is shifted by half a brick.
            image[(y >= top) & (y < top + 3) & ((x + shift) % 8 < 7)] = _WALL_BRICK
        return image
    image[:] = _FLOOR_FACE
    image[~rectangle(0.5, 0.5, 15.5, 15.5)] = _FLOOR_EDGE
    if code in (TARGET, PLAYER_ON_TARGET):
        image[rectangle(2, 2, 14, 14) & ~rectangle(4, 4, 12, 12)] = _TARGET_FACE
    if code == TARGET:
        image[rectangle(6, 6, 10, 10)] = _TARGET_FACE
    if code in (BOX, BOX_ON_TARGET):
        face, edge = (_BOX_FACE, _BOX_FRAME) if code == BOX else (_DONE_FACE, _DONE_FRAME)
        image[rectangle(1, 1, 15, 15)] = edge
        inner = rectangle(3, 3, 13, 13)
        image[inner] = face
        image[inner & ((abs(x - y) < 1) | (abs(x + y - 16) < 1))] = edge
    if code in (PLAYER, PLAYER_ON_TARGET):
        image[rectangle(11, 5.5, 15, 7.5) | rectangle(11, 8.5, 15, 10.5)] = _TROUSERS
        image[rectangle(7, 5, 12, 11) | rectangle(7, 3, 9, 13)] = _SHIRT
        image[disc(4, 8, 3)] = _SKIN
        image[disc(4, 8, 3) & (y < 3)] = _TROUSERS
    return image
