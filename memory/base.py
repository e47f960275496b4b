"""The memory protocol, and how past turns are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium.error import ResetNeeded

from agent_envs.errors import unknown_name
from agent_envs.prompts.budget import IMAGE_DROPPED, Budget, MemoryView, has_image, neutralise, observation_text

MAX_REFUSED_CHARS = 200
"""A refused action is shown up to this length: it may be a whole rambling reply."""


class Memory(ABC):
    """The history of one member. Every member of a batch has an instance of its own.

    The order of calls is ``reset`` once per episode, then for each turn ``render`` before acting and ``store`` after.
    A memory sees observations and infos, it never changes them, nor keys, rewards or flags.
    """

    @abstractmethod
    def reset(self, *, task_id: str, observation: Any) -> None:
        """Forget everything and start an episode.

        Args:
            task_id: ``info["task_id"]``.
            observation: The first observation.
        """

    @abstractmethod
    def store(self, *, observation: Any, action: str, info: Mapping[str, Any]) -> None:
        """Add the turn that was just played. Call it only for rows that acted.

        Args:
            observation: The observation that ``step`` returned.
            action: The text that led to it; for a reply without a well-formed action, the reply itself.
            info: The info that ``step`` returned.
        """

    @abstractmethod
    def render(self, budget: Budget) -> MemoryView:
        """Return the history within a budget: the oldest turns go first. The current observation is not part of it."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return a JSON value from which :meth:`load_state_dict` continues."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of :meth:`state_dict`.

        Raises:
            ValueError: If it is no such value.
        """


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn that was played."""

    observation: str
    """What the action answered."""
    action: str
    refused: bool
    """The reply had the wrong form, or the environment refused the action."""


def history_text(observation: Any) -> str:
    """Return an observation as text for the history; an image becomes ``[image]``.

    Raises:
        TypeError: If the observation holds no text.
    """
    text = neutralise(observation_text(observation))
    if not has_image(observation):
        return text
    return f"{IMAGE_DROPPED} {text}" if text else IMAGE_DROPPED


class TurnLog:
    """The last turns of an episode; the part that the shipped memories share.

    Args:
        length: Turns that are kept, None for all.
    """

    def __init__(self, length: int | None) -> None:
        self.length = length
        self.turns: list[PastTurn] = []
        self.current: str | None = None
        """The newest observation; None before the first episode."""
        self.num_turns = 0
        """Turns played in this episode, kept or not."""

    def reset(self, observation: Any) -> None:
        """Start an episode."""
        self.turns, self.current, self.num_turns = [], history_text(observation), 0

    def add(self, observation: Any, action: str, info: Mapping[str, Any]) -> list[PastTurn]:
        """Add a turn and return the turns that no longer fit."""
        if not isinstance(action, str):
            raise TypeError(f"action must be a str, got {action!r}.")
        if self.current is None:
            raise ResetNeeded("Call reset() before store().")
        refused = not info.get("action_is_valid", True)
        new = history_text(observation)
        self.turns.append(PastTurn(self.current, neutralise(action), refused))
        self.current = new
        self.num_turns += 1
        surplus = 0 if self.length is None else max(0, len(self.turns) - self.length)
        dropped, self.turns = self.turns[:surplus], self.turns[surplus:]
        return dropped

    def lines(self, style: str) -> list[str]:
        """Return the kept turns as text, oldest first."""
        first = self.num_turns - len(self.turns) + 1
        results: list[str | None] = [turn.observation for turn in self.turns[1:]]
        results.append(None)
        return [
            turn_text(style, first + index, turn, result)
            for index, (turn, result) in enumerate(zip(self.turns, results, strict=False))
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return a JSON value."""
        turns = [[turn.observation, turn.action, turn.refused] for turn in self.turns]
        return {"num_turns": self.num_turns, "current": self.current, "turns": turns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of :meth:`state_dict`."""
        with reading_state():
            turns = [PastTurn(str(seen), str(action), bool(refused)) for seen, action, refused in state["turns"]]
            current, num_turns = state["current"], int(state["num_turns"])
            if not (current is None or isinstance(current, str)) or num_turns < len(turns):
                raise ValueError("its numbers do not agree")
            if self.length is not None and len(turns) > self.length:
                raise ValueError(f"it holds {len(turns)} turns, this memory keeps {self.length}")
        self.turns, self.current, self.num_turns = turns, current, num_turns


class reading_state:  # noqa: N801 - a context manager that reads like a function
    """Turn what goes wrong with a damaged state into one ValueError."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Raise ValueError for the errors that unexpected data causes."""
        if isinstance(error, (KeyError, TypeError, ValueError, AttributeError)):
            raise ValueError(f"Not a state of this memory: {error}.") from None


def turn_text(style: str, number: int, turn: PastTurn, result: str | None) -> str:
    """Return one turn as text.

    Args:
        style: ``"lines"``: ``[Observation k: '...', Action k: '...']``; ``"steps"``: ``Step k: action result``;
            ``"blocks"``: ``Code k:`` and ``Result k:``, each above its text.
        number: The turn's number k, 1-based.
        turn: The turn.
        result: The observation the action led to; None for the newest turn, whose result is the current observation
            and continues the text.
    """
    action, mark = turn.action, ""
    if turn.refused:
        mark = " (refused)"
        if len(action) > MAX_REFUSED_CHARS:
            action = action[:MAX_REFUSED_CHARS] + "..."
    if style == "lines":
        return f"[Observation {number}: '{turn.observation}', Action {number}: '{action}'{mark}]"
    if style == "steps":
        return f"Step {number}: {action}{mark} {result or ''}"
    return f"Code {number}{mark}:\n{action}\nResult {number}:\n{result or ''}"


STYLES = ("lines", "steps", "blocks")


def check_style(style: str) -> str:
    """Return the style.

    Raises:
        ValueError: If it is unknown.
    """
    if style not in STYLES:
        raise unknown_name("style", style, STYLES)
    return style


def check_length(name: str, value: int | None) -> int | None:
    """Return a number of turns.

    Raises:
        TypeError: If it is neither an int nor None.
        ValueError: If it is negative.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int or None, got {value!r}.")
    if value < 0:
        raise ValueError(f"{name} must be >= 0, got {value}; None means no limit.")
    return value


def newest_that_fit(lines: Sequence[str], budget: Budget) -> int:
    """Return how many of the last lines fit into a budget together.

    The search halves, since counting tokens of a long text is the cost.
    """
    low, high = 0, len(lines)
    if budget.fits("\n".join(lines)):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if budget.fits("\n".join(lines[len(lines) - middle :])):
            low = middle
        else:
            high = middle - 1
    return low
