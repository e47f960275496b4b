"""From an action text to one symbol: the vocabularies of the games."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_PIECE = re.compile(r"[0-9]+|[A-Za-z]+|[^\sA-Za-z0-9,;]")
_GAP = re.compile(r"[\s,;]+")


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

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every spelling of a single action."""
        return (*self.symbols, *self.aliases, *self.faces)

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
