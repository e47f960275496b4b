"""What an agent in a household holds and where it has been: a few words instead of a history."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gymnasium.error import ResetNeeded

from agent_envs.envs.alfworld.commands import tidy_command
from agent_envs.memory.base import (
    MAX_REFUSED_CHARS,
    Memory,
    check_length,
    check_style,
    history_text,
    newest_that_fit,
    reading_state,
)
from agent_envs.prompts.budget import Budget, MemoryView, neutralise

_TAKE = re.compile(r"take (.+) from .+")
_PLACE = re.compile(r"(?:move|put) .+")
_TREAT = re.compile(r"(clean|heat|cool) .+")
_GO = re.compile(r"go to (.+)")
_NOW = {"clean": "clean", "heat": "hot", "cool": "cool"}


class HouseholdMemory(Memory):
    """Shows where the agent has been, what it holds, and after refused commands the last useful answer; for ALFWorld.

    It reads the agent's own commands, and of those only the ones that the environment took; of an object it shows the
    last treatment since it was taken. The whole text is a few words, so that small models can use it. It fits the
    templates ``compact`` and your own; the papers' ones announce whole turns::

        Been at: cabinet 2, fridge 1, microwave 1.
        Holding: mug 1, hot.
        You arrive at fridge 1. The fridge 1 is closed.
        Refused: heat mug 1 with fridge 1

    Args:
        history_length: Refused commands shown since the last that was taken, None for all.
        max_places: Places shown, None for all; those seen least recently are left out.
        style: Accepted so that memories can be exchanged by name alone.

    Raises:
        ValueError: For a negative number or an unknown style.
        TypeError: If a number is no int.
    """

    def __init__(self, *, history_length: int | None = 2, max_places: int | None = 8, style: str = "lines") -> None:
        self._max_places = check_length("max_places", max_places)
        self._max_refused = check_length("history_length", history_length)
        check_style(style)
        self._places: list[str] = []
        self._held, self._treated = "", ""
        self._answer: str | None = None
        self._refused: list[str] = []

    def reset(self, *, task_id: str, observation: Any) -> None:
        """Forget the last episode."""
        self._places, self._held, self._treated, self._refused = [], "", "", []
        self._answer = history_text(observation)

    def store(self, *, observation: Any, action: str, info: Mapping[str, Any]) -> None:
        """Note what a command did."""
        if not isinstance(action, str):
            raise TypeError(f"action must be a str, got {action!r}.")
        if self._answer is None:
            raise ResetNeeded("Call reset() before store().")
        if not info.get("action_is_valid", True):
            self._refused.append(neutralise(action)[:MAX_REFUSED_CHARS])
            return
        self._answer, self._refused = history_text(observation), []
        action = tidy_command(action)
        if went := _GO.fullmatch(action):
            self._places = [place for place in self._places if place != went[1]] + [went[1]]
        elif took := _TAKE.fullmatch(action):
            self._held, self._treated = took[1], ""
        elif _PLACE.fullmatch(action):
            self._held, self._treated = "", ""
        elif treated := _TREAT.fullmatch(action):
            self._treated = _NOW[treated[1]]

    def render(self, budget: Budget) -> MemoryView:
        """Return the notes; under a budget the first lines go first."""
        lines = []
        places = _newest(self._places, self._max_places)
        if places:
            lines.append(f"Been at: {', '.join(places)}.")
        if self._held:
            lines.append(f"Holding: {self._held}{', ' if self._treated else ''}{self._treated}.")
        refused = _newest(self._refused, self._max_refused)
        if refused:
            lines += [str(self._answer), f"Refused: {'; '.join(refused)}"]
        shown = newest_that_fit(lines, budget)
        return MemoryView(text="\n".join(lines[len(lines) - shown :]))

    def state_dict(self) -> dict[str, Any]:
        """Return a JSON value."""
        held = [self._held, self._treated]
        return {"places": [*self._places], "held": held, "answer": self._answer, "refused": [*self._refused]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of :meth:`state_dict`."""
        with reading_state():
            lists = [state["places"], state["refused"], state["held"]]
            if not all(isinstance(part, list) and all(isinstance(item, str) for item in part) for part in lists):
                raise ValueError("its parts are no lists of texts")
            places, refused, (held, treated) = lists[0][:], lists[1][:], lists[2]
            answer = state["answer"]
            if not (answer is None or isinstance(answer, str)):
                raise ValueError("its answer is no text")
        self._places, self._held, self._treated, self._answer, self._refused = places, held, treated, answer, refused


def _newest(items: list[str], number: int | None) -> list[str]:
    return items if number is None else items[max(0, len(items) - number) :]
