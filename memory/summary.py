"""A short window, and above it one line per action of the older turns: rules only, no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agent_envs.memory.base import (
    MAX_REFUSED_CHARS,
    Memory,
    TurnLog,
    check_length,
    check_style,
    newest_that_fit,
    reading_state,
)
from agent_envs.prompts.budget import Budget, MemoryView

MAX_RESULT_CHARS = 120
"""A last result is shown up to this length."""


@dataclass(slots=True)
class _ActionSummary:
    count: int = 0
    refused: int = 0
    last_turn: int = 0
    last_result: str = ""


class SummaryMemory(Memory):
    """Shows the last turns word for word and what the turns before them did.

    The summary holds a line with counts, then for each different action the number of times it was taken, how often
    it was refused, its last turn and the beginning of its last result. Actions stand in the order of their last turn;
    the same turns always give the same text. Under a budget the oldest lines go first, then the oldest turns.

    Args:
        history_length: Turns shown word for word.
        max_actions: Actions in the summary, None for all; those taken least recently are left out.
        style: How a turn is written (see :func:`turn_text`).

    Raises:
        ValueError: For a negative number or an unknown style.
        TypeError: If a number is no int.
    """

    def __init__(self, *, history_length: int | None = 2, max_actions: int | None = 12, style: str = "lines") -> None:
        self._style = check_style(style)
        self._max_actions = check_length("max_actions", max_actions)
        self._log = TurnLog(check_length("history_length", history_length))
        self._actions: dict[str, _ActionSummary] = {}

    def reset(self, *, task_id: str, observation: Any) -> None:
        """Forget the last episode."""
        self._log.reset(observation)
        self._actions = {}

    def store(self, *, observation: Any, action: str, info: Mapping[str, Any]) -> None:
        """Add a turn; the turn that leaves the window enters the summary."""
        for turn in self._log.add(observation, action, info):
            result = self._log.turns[0].observation if self._log.turns else self._log.current
            item = self._actions.pop(turn.action, None) or _ActionSummary()
            item.count += 1
            item.refused += turn.refused
            item.last_turn = self._log.num_turns - len(self._log.turns)
            item.last_result = _shorten(result or "", MAX_RESULT_CHARS)
            self._actions[turn.action] = item  # at the end: the dict is ordered by last turn

    def render(self, budget: Budget) -> MemoryView:
        """Return summary and window, cut to the budget."""
        window = self._log.lines(self._style)
        lines = [*self._summary(), *window]
        shown = newest_that_fit(lines, budget)
        return MemoryView(text="\n".join(lines[len(lines) - shown :]), num_turns=min(shown, len(window)))

    def _summary(self) -> list[str]:
        if not self._actions:
            return []
        items = list(self._actions.items())
        num_turns = sum(item.count for _, item in items)
        refused = sum(item.refused for _, item in items)
        lines = [f"Turns 1 to {num_turns} in short: {len(items)} different actions, {refused} of {num_turns} refused."]
        if self._max_actions is not None and len(items) > self._max_actions:
            items = items[len(items) - self._max_actions :]
            lines.append(f"The {len(items)} taken last:")
        for action, item in items:
            refusals = f", {item.refused} refused" if item.refused else ""
            lines.append(
                f"- '{_shorten(action, MAX_REFUSED_CHARS)}' x {item.count}{refusals}, last in turn {item.last_turn}: "
                f"'{item.last_result}'"
            )
        return lines

    def state_dict(self) -> dict[str, Any]:
        """Return window and summary as JSON."""
        actions = [[action, asdict(item)] for action, item in self._actions.items()]
        return {"log": self._log.state_dict(), "actions": actions}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of :meth:`state_dict`."""
        with reading_state():
            actions = {str(action): _ActionSummary(**item) for action, item in state["actions"]}
            log = state["log"]
        self._log.load_state_dict(log)
        self._actions = actions


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "..."
