"""The last turns as they were, and no memory at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_envs.memory.base import Memory, TurnLog, check_length, check_style, newest_that_fit
from agent_envs.prompts.budget import Budget, MemoryView


class NoMemory(Memory):
    """Shows nothing: the policy sees the current observation only.

    Args:
        history_length: Accepted so that memories can be exchanged by name alone; nothing is shown.
        style: As above.
    """

    def __init__(self, *, history_length: int | None = 0, style: str = "lines") -> None:
        check_length("history_length", history_length)
        check_style(style)

    def reset(self, *, task_id: str, observation: Any) -> None:
        """Do nothing."""

    def store(self, *, observation: Any, action: str, info: Mapping[str, Any]) -> None:
        """Do nothing."""

    def render(self, budget: Budget) -> MemoryView:
        """Return an empty view."""
        return MemoryView()

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dict."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept an empty dict."""
        if state:
            raise ValueError(f"Not a state of this memory: it has the keys {', '.join(sorted(state))}.")


class WindowMemory(Memory):
    """Shows the last turns word for word.

    Args:
        history_length: Turns shown, None for all of the episode.
        style: How a turn is written: ``"lines"``, ``"steps"`` or ``"blocks"`` (see :func:`turn_text`).

    Raises:
        ValueError: For a negative length or an unknown style.
    """

    def __init__(self, *, history_length: int | None = 2, style: str = "lines") -> None:
        self._style = check_style(style)
        self._log = TurnLog(check_length("history_length", history_length))

    def reset(self, *, task_id: str, observation: Any) -> None:
        """Forget the last episode."""
        self._log.reset(observation)

    def store(self, *, observation: Any, action: str, info: Mapping[str, Any]) -> None:
        """Add a turn; the oldest one goes if there are more than ``history_length``."""
        self._log.add(observation, action, info)

    def render(self, budget: Budget) -> MemoryView:
        """Return as many of the newest turns as fit."""
        lines = self._log.lines(self._style)
        shown = newest_that_fit(lines, budget)
        return MemoryView(text="\n".join(lines[len(lines) - shown :]), num_turns=shown)

    def state_dict(self) -> dict[str, Any]:
        """Return the kept turns as JSON."""
        return self._log.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of :meth:`state_dict`."""
        self._log.load_state_dict(state)
