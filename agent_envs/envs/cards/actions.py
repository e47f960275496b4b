"""From a policy's reply to one symbol: the games' vocabularies and the reader of replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agent_envs.tags import ReplySpec, TagSpec

_DECODER = json.JSONDecoder(parse_int=str)  # an int action becomes its text; no limit on the number of digits
_PIECE = re.compile(r"[0-9]+|[A-Za-z]+|[^\sA-Za-z0-9,;]")
_GAP = re.compile(r"[\s,;]+")
_THINK = re.compile(r"<think>", re.IGNORECASE)
_THINK_END = re.compile(r"</think>", re.IGNORECASE)
_OBJECT = re.compile(r'\{(?=[ \t\n\r]*["}])')
_JSON_BUDGET: Final = 20_000_000
"""Characters that failed attempts at JSON may read in one reply, so that no reply costs more than about 0.1 s."""
_DEEP_COST: Final = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One action text, read against a game's vocabulary."""

    symbol: str
    """The symbol played, empty if the text is refused."""
    reason: str
    """``ok``, ``face_alias``; or why it is refused: ``unknown_action``, ``action_multiple``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """The symbols of a game, in the order of their numeric ids in the original games."""

    symbols: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings (letters in capitals) of a symbol."""
    faces: Mapping[str, str] = field(default_factory=dict)
    """Names of face cards and the number they stand for."""

    def read(self, text: str) -> Reading:
        """Return the symbol that ``text`` is; surrounding blanks and the case of letters do not matter.

        The text must be one symbol: nothing is searched for inside a longer text.
        """
        text = text.strip()
        if text in self.symbols:
            return Reading(symbol=text, reason="ok")
        found = self._spelling(text)
        if found is not None:
            return found
        pieces = _PIECE.findall(text) if len(text) <= 256 else []
        if len(pieces) > 1 and _GAP.sub("", text) == "".join(pieces) and all(map(self._knows, pieces)):
            return Reading(symbol="", reason="action_multiple")
        return Reading(symbol="", reason="unknown_action")

    def _knows(self, piece: str) -> bool:
        return piece in self.symbols or self._spelling(piece) is not None

    def _spelling(self, text: str) -> Reading | None:
        # Only ASCII changes case: the Kelvin sign is no king.
        name = text.upper() if text.isascii() else text
        if name in self.aliases:
            return Reading(symbol=self.aliases[name], reason="ok")
        if name in self.faces:
            return Reading(symbol=self.faces[name], reason="face_alias")
        return None


def points_vocabulary(operators: str, *, largest: int = 10) -> Vocabulary:
    """Return numbers 1 to ``largest``, then the operators; a face stands for its number, at most ``largest``."""
    faces = {name: str(min(number, largest)) for name, number in (("J", 11), ("Q", 12), ("K", 13))}
    return Vocabulary(symbols=(*map(str, range(1, largest + 1)), *operators), aliases={"X": "*", "×": "*"}, faces=faces)


EZPOINTS: Final = points_vocabulary("+*=")
POINTS24: Final = points_vocabulary("+-*/()=")
POINTS24_FACES: Final = points_vocabulary("+-*/()=", largest=13)
NUMBERLINE: Final = Vocabulary(symbols=("-", "+"), aliases={"LEFT": "-", "RIGHT": "+"})
BLACKJACK: Final = Vocabulary(symbols=("stand", "hit"), aliases={"STAND": "stand", "HIT": "hit"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A reply read into one action text."""

    action: str
    """The symbol, or the text found if it is none; empty if ``format_ok`` is False."""
    format_ok: bool
    """The reply holds an action in an accepted form; whether the game accepts it is another question."""
    reason: str
    """``ok``, ``face_alias``, ``unknown_action``, ``action_multiple``; with ``format_ok`` False ``bare_symbol`` or the
    reason of the tags."""


def parse_reply(
    text: str, *, vocabulary: Vocabulary = POINTS24, tags: ReplySpec | None = None, lenient: bool = False
) -> Reply:
    """Read a reply to a card game: the papers' JSON first, then tags.

    1. The last ``{...}`` that is JSON and has a string or integer ``action``; nothing inside a ``<think>`` block.
    2. ``<action>...</action>`` as ``tags`` reads it.
    3. A reply that is one symbol only is refused (``bare_symbol``), unless ``lenient``.

    Args:
        text: The policy's reply.
        vocabulary: The symbols of the game (``env.vocabulary``).
        tags: The reply format of step 2, by default ``TagSpec()``: a thought, then an action.
        lenient: Take a bare symbol as the action.

    Raises:
        TypeError: If ``text`` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"A reply must be a str, got {type(text).__name__}: {text!r}.")
    found = json_action(_without_thought(text))
    if found is None:
        parsed = (tags or TagSpec()).parse(text)
        is_bare = not parsed.format_ok and bool(vocabulary.read(text).symbol)
        if not parsed.format_ok and not (is_bare and lenient):
            return Reply(action="", format_ok=False, reason="bare_symbol" if is_bare else parsed.reason)
        found = text if is_bare else parsed.action
    reading = vocabulary.read(found)
    return Reply(action=reading.symbol or found.strip(), format_ok=True, reason=reading.reason)


def json_action(text: str) -> str | None:
    """Return the ``action`` of the last JSON object that has one as a string or integer, else None."""
    action, budget = None, _JSON_BUDGET
    match = _OBJECT.search(text)
    while match and budget > 0:
        end = match.end()
        try:
            value, end = _DECODER.raw_decode(text, match.start())
            action = next(_actions(value), action)
        except json.JSONDecodeError as error:
            budget -= error.pos  # the error counts the lines from the beginning of the text
        except RecursionError:
            budget -= _DEEP_COST
        match = _OBJECT.search(text, end)
    return action


def _actions(value: Any) -> Iterator[str]:
    """Yield actions of an object: its own first, then those of nested objects from the last to the first."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(item.get("action"), str):
                yield item["action"]
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _without_thought(text: str) -> str:
    opening = _THINK.search(text)
    if opening is None:
        return text
    closing = _THINK_END.search(text, opening.end())
    return text[: opening.start()] + text[closing.end() :] if closing else text[: opening.start()]
