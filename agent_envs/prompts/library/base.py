"""What the templates of one environment consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_envs.prompts.template import TemplateSet
from agent_envs.tags import ReplySpec, TagSpec

COMPACT_SPEC = TagSpec(think=None, response_prefix="<action>", stop="</action>")
"""For small models: no thought, and the opening tag is written for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvPrompts:
    """The templates of one environment and its settings."""

    sets: Mapping[tuple[str, str], TemplateSet]
    """(template name, obs_mode) to templates."""
    obs_mode: str = "text"
    """The environment's default ``obs_mode``."""
    spec: ReplySpec = TagSpec()
    """Reply format unless a set has its own."""
    style: str = "lines"
    """How memories write a turn."""
    history_length: int | None = 2
    """Turns that the papers show; None is all of them."""


def compact(
    *, text: str = "{current_observation}", image: bool = False, spec: ReplySpec = COMPACT_SPEC, end: str = "action:"
) -> dict[tuple[str, str], TemplateSet]:
    """Return the sets named ``compact``: history, observation and one word, no instructions.

    Args:
        text: What stands between history and the last line.
        image: Whether the environment has the image modes.
        spec: Reply format.
        end: The last line.
    """
    modes = {"text": text}
    if image:
        modes |= {"image": "<image>", "image_text": f"<image>\n{text}"}
    return {
        ("compact", mode): TemplateSet(first=f"{body}\n{end}", later=f"{{action_history}}\n{body}\n{end}", spec=spec)
        for mode, body in modes.items()
    }
