"""The texts the agent reads: search results in two layouts, made safe against tags inside passages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agent_envs.retriever.base import Hit

PASSAGE_FORMATS = ("search_r1", "verl_agent")
NOTHING_FOUND = "No search results found."
ANSWER_TAKEN = "The answer was taken."

# A tag inside a passage must never be read as the agent's own.
_TAG = re.compile(r"<(?=\s*/?\s*(?:answer|search|information|think|action)\s*/?>)", re.IGNORECASE)
_BROKEN = "<\u200b"
_REASONS = {
    "action_missing": "it has neither a search nor an answer",
    "action_empty": "the text between the tags is empty",
    "action_multiple": "it has more than one search or answer",
    "think_order": "it closes a thought that was not opened",
    "think_unclosed": "its thought is not closed",
}


def neutralise_tags(text: str) -> str:
    """Break every tag of the dialogue by a zero-width space after ``<``."""
    return _TAG.sub(_BROKEN, text)


def results_text(hits: Sequence[Hit], *, passage_format: str, max_chars: int) -> str:
    """Return the observation after a search.

    Args:
        hits: What was found.
        passage_format: ``"search_r1"`` or ``"verl_agent"``.
        max_chars: Passages are cut to this length.
    """
    texts = [neutralise_tags(hit.contents[:max_chars]) for hit in hits]
    if passage_format == "verl_agent":
        listed = "".join(f"Doc {number}: {text}\n" for number, text in enumerate(texts, 1))
        body = json.dumps({"result": listed or NOTHING_FOUND})
    else:
        body = "".join(_with_title(number, text) for number, text in enumerate(texts, 1)).strip() or NOTHING_FOUND
    return f"<information>{body}</information>"


def _with_title(number: int, text: str) -> str:
    title, _, rest = text.partition("\n")
    return f"Doc {number}(Title: {title}) {rest}\n"


def refusal_text(reason: str) -> str:
    """Return the observation after a refused action."""
    why = _REASONS.get(reason, reason)
    return f"Your previous action was invalid: {why}. Write <search>query</search> or <answer>text</answer>."
