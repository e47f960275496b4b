"""The reply format of the card games: the papers' JSON object, or tags; either is read whichever is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from agent_envs.errors import unknown_name
from agent_envs.tags import Parsed, TagSpec

_DECODER = json.JSONDecoder(parse_int=str)  # an int action becomes its text; no limit on the number of digits
_THINK = re.compile(r"<think>", re.IGNORECASE)
_THINK_END = re.compile(r"</think>", re.IGNORECASE)
_OBJECT = re.compile(r'\{(?=[ \t\n\r]*["}])')
_JSON_BUDGET: Final = 20_000_000
"""Characters that failed attempts at JSON may read in one reply, so that no reply costs more than about 0.1 s."""
_DEEP_COST: Final = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonOrTagSpec:
    """Replies to the card games, read in this order.

    1. The last ``{...}`` outside a ``<think>`` block that is JSON and has a string or integer ``action``.
    2. ``<action>...</action>`` as ``tags`` reads it.
    3. A reply that is one of ``symbols`` and nothing else is refused (``bare_symbol``), unless ``lenient``.

    Raises:
        ValueError: If ``ask`` is neither ``"tags"`` nor ``"json"``.
    """

    ask: Literal["tags", "json"] = "tags"
    """Form that :meth:`instruction` asks for; both are read."""
    tags: TagSpec = TagSpec()
    symbols: tuple[str, ...] = ()
    """Spellings of single actions, for rule 3."""
    lenient: bool = False
    """Take a bare symbol as the action."""

    def __post_init__(self) -> None:
        """Check ``ask``."""
        if self.ask not in ("tags", "json"):
            raise unknown_name("ask", self.ask, ("tags", "json"))

    @property
    def response_prefix(self) -> str:
        """Text that is written in front of the policy's reply."""
        return self.tags.response_prefix

    @property
    def stop(self) -> str | None:
        """Text that ends generation."""
        return self.tags.stop

    def instruction(self) -> str:
        """Return the format paragraph of the prompt; every reply that follows it parses."""
        if self.ask == "tags":
            return self.tags.instruction()
        return (
            "Reply with one JSON object and nothing else: "
            '{"thoughts": "your reasoning about the situation, step by step", "action": "your action"}'
        )

    def parse(self, text: str) -> Parsed:
        """Read one reply; the reasons are ``bare_symbol`` and those of :meth:`TagSpec.parse`.

        Raises:
            TypeError: If ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"A reply must be a str, got {type(text).__name__}: {text!r}.")
        found = json_action(_without_thought(text))
        if found is not None:
            action = found.strip()
            return _parsed(action, "ok" if action else "action_empty")
        parsed = self.tags.parse(text)
        bare = text.strip()
        if parsed.format_ok or not bare.isascii() or bare.upper() not in {symbol.upper() for symbol in self.symbols}:
            return parsed
        return _parsed(bare, "ok") if self.lenient else _parsed("", "bare_symbol")

    def env_action(self, parsed: Parsed) -> str:
        """Return the text to pass to ``env.step``."""
        return parsed.action


def _parsed(action: str, reason: Literal["ok", "action_empty", "bare_symbol"]) -> Parsed:
    ok = reason == "ok"
    return Parsed(action=action if ok else "", tag="action" if ok else "", thought="", format_ok=ok, reason=reason)


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
