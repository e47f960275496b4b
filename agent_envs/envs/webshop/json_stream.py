"""Read a large JSON list or object element by element, so that a file of gigabytes never fills the memory.

Elements are objects, lists or texts, as in all WebShop files: of a bare number a chunk could show a part only.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

_CHUNK = 1 << 20  # characters read at once
_MAX_ELEMENT = 1 << 26  # characters; an element that is not complete after this many is taken for broken JSON
_BLANKS = " \t\r\n"


class _Reader:
    """A growing window over the file's text with a position inside it."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self.file, self.path = file, path
        self.text, self.at, self.dropped, self.ended = "", 0, 0, False
        self.decoder = json.JSONDecoder()

    def broken(self, what: str) -> ValueError:
        place = self.dropped + self.at
        return ValueError(
            f"{self.path} is not complete JSON: {what} at character {place}. Download or write the file again."
        )

    def more(self) -> bool:
        """Read on; False at the end of the file."""
        try:
            chunk = self.file.read(_CHUNK)
        except UnicodeDecodeError as error:
            raise self.broken(f"no UTF-8 text ({error.reason}) somewhere after the element") from error
        self.dropped += self.at
        self.text, self.at = self.text[self.at :] + chunk, 0
        self.ended = not chunk
        return not self.ended

    def sign(self) -> str:
        """Return the next character that is not blank without taking it, ``""`` at the end."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in _BLANKS:
                    return self.text[self.at]
                self.at += 1
            if not self.more():
                return ""

    def take(self, expected: str) -> str:
        found = self.sign()
        if not found or found not in expected:
            raise self.broken(f"expected {' or '.join(expected)}, found {found or 'the end of the file'!r}")
        self.at += 1
        return found

    def value(self) -> Any:
        self.sign()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if len(self.text) - self.at > _MAX_ELEMENT or not self.more():
                    raise self.broken(error.msg) from error
                continue
            except RecursionError as error:
                raise self.broken("brackets nested too deep") from error
            self.at = end
            return value


def iter_list(path: Path) -> Iterator[Any]:
    """Yield the elements of the JSON list in a file.

    Raises:
        ValueError: If the file is not one complete JSON list; elements before the break have been yielded by then.
    """
    with path.open(encoding="utf-8") as file:
        reader = _Reader(file, path)
        reader.take("[")
        if reader.sign() == "]":
            return
        while True:
            yield reader.value()
            if reader.take(",]") == "]":
                return


def iter_object(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the (key, value) pairs of the JSON object in a file.

    Raises:
        ValueError: If the file is not one complete JSON object; pairs before the break have been yielded by then.
    """
    with path.open(encoding="utf-8") as file:
        reader = _Reader(file, path)
        reader.take("{")
        if reader.sign() == "}":
            return
        while True:
            key = reader.value()
            if not isinstance(key, str):
                raise reader.broken(f"expected a key, found {key!r}")
            reader.take(":")
            yield key, reader.value()
            if reader.take(",}") == "}":
                return
