"""Level text in the Boxoban format, and level sets read from a user's folder.

A level is a block of rows; lines that start with ``;`` and blank lines separate blocks. Symbols: ``#`` wall, blank
floor, ``.`` target, ``$`` box, ``*`` box on a target, ``@`` player, ``+`` player on a target.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import NoReturn

from agent_envs.envs.sokoban.rules import BOX, PLAYER, PLAYER_ON_TARGET, TARGET, Level

_SYMBOLS = b"# .*$@+"  # indexed by cell code
_TO_CODES = bytes.maketrans(_SYMBOLS, bytes(range(7)))
_TO_SYMBOLS = bytes.maketrans(bytes(range(7)), _SYMBOLS)


def parse_levels(text: str, source: str) -> tuple[Level, ...]:
    """Return the levels of a text in the Boxoban format.

    Args:
        text: The text.
        source: Name of the text in errors.

    Raises:
        ValueError: For a level that cannot be played or is solved already; the text names source and line.
    """
    return tuple(_parse_level(rows, first_line, source) for first_line, rows in _blocks(text))


def format_level(level: Level) -> str:
    """Return a level as rows of symbols, without a header; :func:`parse_levels` reads it back."""
    text = level.room.translate(_TO_SYMBOLS).decode("ascii")
    return "\n".join(text[start : start + level.width] for start in range(0, len(text), level.width))


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each run of level rows with the number of its first line, from 1."""
    rows: list[str] = []
    number = 0
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if line.startswith(";") or not line.strip():
            if rows:
                yield number - len(rows), rows
            rows = []
        else:
            rows.append(line)
    if rows:
        yield number - len(rows) + 1, rows


def _parse_level(rows: list[str], first_line: int, source: str) -> Level:
    width = len(rows[0])
    for offset, row in enumerate(rows):
        if len(row) != width:
            _refuse(source, first_line + offset, f"the row has {len(row)} columns, the level's first row has {width}")
    room_text = "".join(rows).encode("ascii", "replace")
    bad = room_text.translate(None, _SYMBOLS)
    if bad:
        offset = next(i for i, row in enumerate(rows) if row.encode("ascii", "replace").translate(None, _SYMBOLS))
        symbol = next(symbol for symbol in rows[offset] if symbol not in _SYMBOLS.decode("ascii"))
        _refuse(source, first_line + offset, f"unknown symbol {symbol!r}, known are {_SYMBOLS.decode('ascii')!r}")
    room = room_text.translate(_TO_CODES)
    if room.count(PLAYER) + room.count(PLAYER_ON_TARGET) != 1:
        count = room.count(PLAYER) + room.count(PLAYER_ON_TARGET)
        _refuse(source, first_line, f"the level has {count} players, it needs exactly one '@' or '+'")
    loose, empty = room.count(BOX), room.count(TARGET) + room.count(PLAYER_ON_TARGET)
    if loose != empty:
        _refuse(source, first_line, f"the level has {loose} boxes off target for {empty} free targets")
    if not loose:
        _refuse(source, first_line, "the level has no box off target, so there is nothing to do")
    return Level(room, width)


def _refuse(source: str, line: int, what: str) -> NoReturn:
    raise ValueError(f"{source}, line {line}: {what}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelSet:
    """The levels of one split."""

    names: tuple[str, ...]
    """File names without ``.txt``, sorted."""
    ends: tuple[int, ...]
    """Number of levels up to and including each file."""
    levels: tuple[Level, ...]
    digest: str
    """blake2b digest of all levels in order."""

    def level_name(self, index: int) -> str:
        """Return ``"<file>-<position in the file>"``, positions from 0."""
        file = bisect_right(self.ends, index)
        return f"{self.names[file]}-{index - (self.ends[file - 1] if file else 0)}"


@lru_cache(maxsize=16)
def load_level_sets(level_dir: str) -> dict[str, LevelSet]:
    """Return the splits of a folder, read once per process.

    Every sub-folder that holds ``*.txt`` files is a split under its own name, and every ``*.txt`` file that lies in
    the folder itself is one under its name without the ending. All files are read and checked at once, about 12 ms for
    1,000 levels of 10 x 10.

    Raises:
        ValueError: If the folder is missing, holds no levels, or a level is faulty.
    """
    folder = Path(level_dir)
    if not folder.is_dir():
        raise ValueError(f"level_dir {level_dir!r} is not a folder. Give the path of a folder of level files.")
    groups = {path.stem: [path] for path in sorted(folder.glob("*.txt"))}
    for sub_folder in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(sub_folder.glob("*.txt"))
        if files:
            groups.setdefault(sub_folder.name, []).extend(files)
    sets = {name: _level_set(files) for name, files in groups.items()}
    sets = {name: level_set for name, level_set in sets.items() if level_set.levels}
    if not sets:
        raise ValueError(
            f"level_dir {level_dir!r} holds no levels: expected *.txt files in it or in folders such as train/ and "
            "valid/ inside it. For the Boxoban levels name one of unfiltered, medium and hard."
        )
    return sets


def _level_set(files: list[Path]) -> LevelSet:
    parts = [parse_levels(path.read_text(encoding="utf-8", errors="replace"), str(path)) for path in files]
    levels = tuple(level for part in parts for level in part)
    digest = hashlib.blake2b(digest_size=16)
    for level in levels:
        digest.update(level.width.to_bytes(4, "big") + len(level.room).to_bytes(4, "big") + level.room)
    return LevelSet(
        names=tuple(path.stem for path in files),
        ends=tuple(accumulate(len(part) for part in parts)),
        levels=levels,
        digest=digest.hexdigest(),
    )


def with_aliases(sizes: dict[str, int]) -> dict[str, int | str]:
    """Add ``train`` and ``test`` as aliases where a folder has no such split.

    ``train`` is then the first split whose name contains "train", else the first; ``test`` is the first whose name
    contains "test", else "valid", else the last.
    """
    names = sorted(sizes)
    splits: dict[str, int | str] = {name: sizes[name] for name in names}
    if "train" not in splits:
        splits["train"] = next((name for name in names if "train" in name), names[0])
    if "test" not in splits:
        matches = [name for word in ("test", "valid") for name in names if word in name]
        splits["test"] = matches[0] if matches else names[-1]
    return splits
