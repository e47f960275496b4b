"""Templates: plain text with ``{named}`` fields, filled so that braces inside values stay as they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from agent_envs.errors import did_you_mean
from agent_envs.prompts.budget import IMAGE_MARKER
from agent_envs.tags import ReplySpec

INFO_PREFIX = "info."
"""A field ``{info.x}`` shows ``info["x"]``."""
_CLOSING_TAG = re.compile(r"</([A-Za-z][A-Za-z0-9_-]*)>")
_SECTION = re.compile(r"^\[(first|later)\][ \t]*\n", re.MULTILINE)


class Template:
    """One text with fields. ``{{`` and ``}}`` stand for single braces.

    A line that holds nothing but one field vanishes where the field's value is empty.

    Args:
        text: The template.
        known: Names a field may have.

    Raises:
        ValueError: For unbalanced braces, an unknown field or a format such as ``{x!r}``; the text lists the
            known fields.
    """

    def __init__(self, text: str, known: Collection[str]) -> None:
        if not isinstance(text, str):
            raise TypeError(f"A template must be a str, got {type(text).__name__}.")
        try:
            raw = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(
                f"Template has unbalanced braces ({error}); write {{{{ and }}}} for literal ones."
            ) from None
        self.parts: list[tuple[str, str | None]] = []
        """Pairs of a literal text and the field that follows it, None at the end."""
        for literal, name, spec, conversion in raw:
            if name is not None and (spec or conversion):
                raise ValueError(f"Template field {{{name}}} has a format or conversion; write the name alone.")
            if name is not None and name not in known and not name.startswith(INFO_PREFIX):
                raise ValueError(
                    f"Unknown template field {{{name}}}.{did_you_mean(name, known)} Known: "
                    f"{', '.join(sorted(known))}, and {INFO_PREFIX}<key> for a key of info."
                )
            if self.parts and self.parts[-1][1] is None:  # the parser splits at doubled braces
                literal = self.parts.pop()[0] + literal
            self.parts.append((literal, name))

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(name for _, name in self.parts if name is not None)

    @property
    def literal(self) -> str:
        """The text without its fields."""
        return "".join(literal for literal, _ in self.parts)

    def pieces(self, values: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
        """Yield the rendered text in order, as (text, name of the field it came from or None)."""
        drop_newline = False
        for index, (literal, name) in enumerate(self.parts):
            yield literal[1:] if drop_newline else literal, None
            drop_newline = False
            if name is not None:
                yield values[name], name
                drop_newline = not values[name] and self._alone(index)

    def _alone(self, index: int) -> bool:
        before = self.parts[index][0]
        starts_line = before.endswith("\n") or (not before and index == 0)
        return starts_line and index + 1 < len(self.parts) and self.parts[index + 1][0].startswith("\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateSet:
    """The two templates of an environment, and what differs from the environment's own settings."""

    first: str
    """Template of the first turn, when nothing has happened yet."""
    later: str
    """Template of all later turns."""
    spec: ReplySpec | None = None
    """Reply format; None for the environment's own."""
    style: str | None = None
    """How memories write a turn: ``"lines"``, ``"steps"`` or ``"blocks"``; None for the environment's own."""

    @classmethod
    def from_file(cls, path: str | Path, *, spec: ReplySpec | None = None, style: str | None = None) -> TemplateSet:
        """Read templates from a text file.

        The file holds a line ``[first]``, the first-turn template, a line ``[later]`` and the later-turn template. A
        file without such lines is used for both. One newline at the end of a template is dropped.

        Raises:
            ValueError: If the file cannot be read or has only one of the sections.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"Template file {str(path)!r} cannot be read: {error}.") from None
        before, *rest = _SECTION.split(text)
        sections = dict(zip(rest[::2], rest[1::2], strict=True))
        if not rest:
            sections = {"first": text, "later": text}
        elif before.strip() or len(rest) != 4 or len(sections) != 2:
            raise ValueError(
                f"Template file {str(path)!r} must hold one line [first] and one line [later], each before its "
                "template, or none of them."
            )
        first, later = (sections[name].removesuffix("\n") for name in ("first", "later"))
        return cls(first=first, later=later, spec=spec, style=style)


def check_tags(template: Template, tags: tuple[str, ...]) -> None:
    """Refuse a template that asks for other tags than the parser reads.

    Raises:
        ValueError: If a template without ``{format_instructions}`` names tags, but not those of the specification.
    """
    named = set(_CLOSING_TAG.findall(template.literal))
    missing = [tag for tag in tags if tag not in named]
    if "format_instructions" not in template.fields and named and missing:
        raise ValueError(
            f"Template asks for <{'>, <'.join(sorted(named))}> but the parser needs <{'>, <'.join(missing)}>. Use "
            f"the field {{format_instructions}}, or pass a spec with these tags."
        )


def count_markers(template: Template) -> int:
    """Return how many images the template itself places."""
    return template.literal.count(IMAGE_MARKER)
