"""From what the agent wrote to a search or an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_envs.tags import TagSpec

_TAGS = ("search", "answer")
_STRICT = TagSpec(actions=_TAGS, require_think=False, exactly_one=True)
_LENIENT = TagSpec(actions=_TAGS, require_think=False)
_BRACKETS = re.compile(r"\s*(search|answer)\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QAAction:
    """A read action."""

    kind: str
    """``"search"``, ``"answer"``, or empty for a refused text."""
    text: str
    """Query or answer without outer blanks."""
    refusal: str
    """Empty, or why the text was refused."""


def parse_action(text: str, *, lenient: bool = False) -> QAAction:
    """Read ``<search>..</search>``, ``<answer>..</answer>``, ``search[..]`` or ``answer[..]``.

    A thought in ``<think>`` is removed first; nothing inside it counts.

    Args:
        text: The action, or a whole reply.
        lenient: Take the last of several blocks instead of refusing the text.
    """
    match = _BRACKETS.fullmatch(text)
    if match:
        inner = match[2].strip()
        return QAAction(match[1].lower(), inner, "") if inner else QAAction("", "", "action_empty")
    parsed = (_LENIENT if lenient else _STRICT).parse(text)
    if not parsed.format_ok:
        return QAAction("", "", parsed.reason)
    return QAAction(parsed.tag, parsed.action, "")
