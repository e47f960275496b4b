"""Loader of game files: `game.tw-pddl` or `initial_state.pddl` in, a shared `Game` out.

Of an official file only the PDDL problem and the task sentence are used; rules and wording belong to the text release
that is asked for, so that files of every release play alike.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from pathlib import Path

from agent_envs.envs.alfworld.game import Game, GameFileError, build_game

__all__ = ["Game", "GameFileError", "build_game", "decode_game", "load_game"]

_CACHE_SIZE = 256  # About 0.2 MB per game.
_SENTENCE = re.compile(r'"Your task is to: ((?:[^"\\]|\\.)*)"')


def load_game(source: str | os.PathLike[str] | bytes, grammar: str = "0.4") -> Game:
    """Loads a game; the 256 games used last are kept, so that a file is read again only after it has changed.

    Args:
        source: Path of a `game.tw-pddl` or `initial_state.pddl` file, or the content of such a file. A problem without
            task sentence (`initial_state.pddl`) gets one from its goal.
        grammar: `"0.4"` (`move X to Y`) or `"0.3"` (`put X in/on Y`).

    Returns:
        The game; may be shared between threads.

    Raises:
        GameFileError: The file is damaged or its goal cannot be reached.
        ValueError: Unknown grammar.
        OSError: The file cannot be read.
    """
    if isinstance(source, bytes):
        return _load_bytes(source, grammar)
    path = Path(source).absolute()
    stat = path.stat()
    return _load_path(path, stat.st_mtime_ns, stat.st_size, grammar)


@lru_cache(_CACHE_SIZE)
def _load_path(path: Path, mtime_ns: int, size: int, grammar: str) -> Game:
    """Reads a file; time and size only make the cache notice a changed one."""
    return decode_game(path.read_bytes(), str(path), grammar)


@lru_cache(_CACHE_SIZE)
def _load_bytes(data: bytes, grammar: str) -> Game:
    return decode_game(data, "<bytes>", grammar)


def decode_game(data: bytes, source: str = "<bytes>", grammar: str = "0.4") -> Game:
    """Reads the content of a game file, without any cache.

    Args:
        data: Content of a `game.tw-pddl` or `initial_state.pddl` file.
        source: Name for messages.
        grammar: `"0.4"` or `"0.3"`.

    Returns:
        The game.

    Raises:
        GameFileError: The content is damaged or its goal cannot be reached.
        ValueError: Unknown grammar.
    """
    try:
        text = data.decode("utf-8-sig")
        content = json.loads(text) if text.lstrip()[:1] in ("{", "[") else {"pddl_problem": text}
    except (ValueError, RecursionError) as error:
        raise GameFileError(f"{source}: the file is damaged ({error}). Fetch or generate it again.") from error
    problem = content.get("pddl_problem") if isinstance(content, dict) else None
    if not isinstance(problem, str):
        raise GameFileError(f"{source}: the key 'pddl_problem' with the text of a PDDL problem is missing.")
    return build_game(problem, _sentence(content.get("grammar", ""), source), grammar=grammar, source=source)


def _sentence(grammar_text: object, source: str) -> str | None:
    """Returns the task sentence in the grammar of a game file, without full stop; None where there is none."""
    match = _SENTENCE.search(grammar_text) if isinstance(grammar_text, str) else None
    if match is None:
        return None
    try:
        sentence = str(json.loads(f'"{match[1]}"', strict=False))
    except json.JSONDecodeError as error:
        raise GameFileError(f"{source}: the task sentence {match[1]!r} is no valid JSON text ({error}).") from error
    return sentence[: sentence.rindex(".")] if "." in sentence else sentence
