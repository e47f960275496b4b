"""Observation and action spaces for text."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

_PRINTABLE = "".join(chr(code) for code in range(32, 127))
_SAMPLE_LENGTH = 32


class FreeText(spaces.Space[str]):
    """All Unicode strings of at most ``max_length`` characters, the empty string included.

    ``gymnasium.spaces.Text`` has a fixed character set, so one accented letter in a product title lies outside the
    space. This space has none, and ``contains`` costs O(1).

    Args:
        max_length: Largest number of characters.
        seed: Seed of the space's own generator, used by ``sample`` only.

    Raises:
        ValueError: If ``max_length`` is negative.
    """

    def __init__(self, max_length: int = 1 << 20, *, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 0:
            raise ValueError(f"max_length must be >= 0, got {max_length}.")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed-size array form."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return printable ASCII of at most 32 characters."""
        length = int(self.np_random.integers(0, min(self.max_length, _SAMPLE_LENGTH) + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(0, len(_PRINTABLE), size=length))

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def to_jsonable(self, sample_n: Any) -> list[str]:
        """Return the samples as a list: strings are JSON already."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Return the samples as a list of strings."""
        return [str(item) for item in sample_n]

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"FreeText(max_length={self.max_length})"

    def __eq__(self, other: object) -> bool:
        """Two spaces are equal if their limits are."""
        return isinstance(other, FreeText) and self.max_length == other.max_length
