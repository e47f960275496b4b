"""What a memory is asked for and what it gives back; shared by prompts and memories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

IMAGE_MARKER = "<image>"
"""Stands in a text where an image belongs."""
IMAGE_DROPPED = "[image]"
"""Stands in a text for an image that is not shown, and for a literal marker inside an environment's text."""


def neutralise(text: str) -> str:
    """Return the text without image markers: only templates and memories may place images."""
    return text.replace(IMAGE_MARKER, IMAGE_DROPPED)


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on the length of a text.

    Args:
        limit: Largest length, None for no limit.
        count: Measures a text: characters by default; pass ``lambda text: len(tokenizer.encode(text))`` for tokens.
            Add the tokens of an image for each ``<image>`` in the text if images count.

    Raises:
        ValueError: If ``limit`` is negative.
        TypeError: If ``limit`` is no int or ``count`` cannot be called.
    """

    limit: int | None = None
    count: Callable[[str], int] = len

    def __post_init__(self) -> None:
        """Check the arguments."""
        if self.limit is not None:
            if isinstance(self.limit, bool) or not isinstance(self.limit, int):
                raise TypeError(f"limit must be an int or None, got {self.limit!r}.")
            if self.limit < 0:
                raise ValueError(f"limit must be >= 0, got {self.limit}; pass None for no limit.")
        if not callable(self.count):
            raise TypeError(f"count must be a function from a str to an int, got {self.count!r}.")

    def excess(self, text: str) -> int:
        """Return by how much a text is too long, 0 if it fits."""
        return 0 if self.limit is None else max(0, self.count(text) - self.limit)

    def fits(self, text: str) -> bool:
        """Return whether a text is short enough."""
        return self.excess(text) == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryView:
    """What a memory shows.

    Raises:
        ValueError: If the number of ``<image>`` markers in ``text`` is not the number of images.
    """

    text: str = ""
    """The history; if it ends with white space, the current observation continues its last entry."""
    images: tuple[Any, ...] = ()
    """Images of past turns, one for each ``<image>`` in ``text``, in order: (H, W, 3) uint8 arrays or PIL images."""
    num_turns: int = 0
    """Turns shown word for word."""

    def __post_init__(self) -> None:
        """Check that markers and images agree."""
        markers = self.text.count(IMAGE_MARKER)
        if markers != len(self.images):
            raise ValueError(
                f"A memory's view has {markers} {IMAGE_MARKER} markers but {len(self.images)} images; put "
                f"{IMAGE_DROPPED!r} in the text for an image that is not kept."
            )


def with_history(history: str, current: str) -> str:
    """Return history, then the current observation: on its own line unless the history ends with white space."""
    if not history:
        return current
    return history + ("" if history[-1].isspace() else "\n") + current


def observation_text(observation: Any) -> str:
    """Return the text of an observation; an image beside it is not looked at.

    Raises:
        TypeError: If the observation is neither a str nor a dict with a str under ``"text"``.
    """
    text = observation.get("text") if isinstance(observation, dict) else observation
    if not isinstance(text, str):
        got = f"a dict with {list(observation)}" if isinstance(observation, dict) else type(observation).__name__
        raise TypeError(f"An observation must be a str, or a dict with a str under 'text', got {got}.")
    return text


def has_image(observation: Any) -> bool:
    """Return whether an observation carries an image."""
    return isinstance(observation, dict) and "image" in observation
