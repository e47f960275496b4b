"""One object for the format paragraph of a prompt and for the parser of the reply, so that they cannot disagree."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from agent_envs.errors import unknown_name

Reason = Literal[
    "ok",
    "think_missing",
    "think_order",
    "think_unclosed",
    "action_missing",
    "action_empty",
    "action_multiple",
    "script",
    "bare_symbol",
]
"""Why a reply was or was not accepted; the codes are explained at :meth:`TagSpec.parse`."""

# Letters are told apart by Unicode's own character names, which begin with the script.
_SCRIPTS: dict[str, tuple[str, ...]] = {
    "Arabic": ("ARABIC",),
    "Armenian": ("ARMENIAN",),
    "Bengali": ("BENGALI",),
    "Bopomofo": ("BOPOMOFO",),
    "Cyrillic": ("CYRILLIC",),
    "Devanagari": ("DEVANAGARI",),
    "Georgian": ("GEORGIAN",),
    "Greek": ("GREEK",),
    "Han": ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC"),
    "Hangul": ("HANGUL", "HALFWIDTH HANGUL"),
    "Hebrew": ("HEBREW",),
    "Hiragana": ("HIRAGANA",),
    "Katakana": ("KATAKANA", "HALFWIDTH KATAKANA"),
    "Latin": ("LATIN", "FULLWIDTH LATIN"),
    "Tamil": ("TAMIL",),
    "Thai": ("THAI",),
}
_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """What a parser read in one reply."""

    action: str
    """Content of the chosen block without outer blanks; empty unless ``format_ok``."""
    tag: str
    """Tag of the chosen block as the specification spells it; empty unless ``format_ok``."""
    thought: str
    """Content of the first thought; the whole text if a thought was left open; empty if there is none."""
    format_ok: bool
    """The reply has the asked form. Whether the action is possible is the environment's ``action_is_valid``."""
    reason: Reason
    """``"ok"`` exactly if ``format_ok``."""


class ReplySpec(Protocol):
    """What prompts and rollouts need of a reply format; :class:`TagSpec` is the usual one."""

    @property
    def response_prefix(self) -> str:
        """Text that is written in front of the policy's reply."""

    @property
    def stop(self) -> str | None:
        """Text that ends generation."""

    def instruction(self) -> str:
        """Return the format paragraph of the prompt."""

    def parse(self, text: str) -> Parsed:
        """Read one reply."""

    def env_action(self, parsed: Parsed) -> str:
        """Return the text to pass to ``env.step``."""


@dataclass(frozen=True, slots=True)
class _Block:
    tag: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TagSpec:
    """The reply format "a thought in one pair of tags, then an action in another".

    Args:
        think: Tag of the thought, or None if the policy writes none. With None, think tags are ordinary text.
        actions: Tags an action may stand in, for example ``("search", "answer")``.
        require_think: A reply without a thought is refused. Without effect if ``think`` is None.
        exactly_one: Refuse replies with a second thought or a second action block. By default the last action
            block counts.
        ignore_case: Whether ``<ACTION>`` is read as ``<action>``.
        response_prefix: Text the rollout puts in front of the reply, for example ``"<action>"`` for small models.
            ``parse`` gets what was generated after it.
        stop: Text at which the sampler ends generation, for example ``"</action>"``. It belongs to the reply: where
            an inference engine strips it, append it before parsing if, and only if, it ended the generation.
        forbid_scripts: Unicode scripts whose letters may stand neither in a thought nor in the action, for
            example ``("Han", "Hiragana", "Katakana", "Hangul")``.

    Raises:
        ValueError: For a tag that is no name, a repeated tag, an unknown script, or a prefix that contradicts
            ``require_think``.
        TypeError: For a value of another type.
    """

    think: str | None = "think"
    actions: tuple[str, ...] = ("action",)
    require_think: bool = True
    exactly_one: bool = False
    ignore_case: bool = True
    response_prefix: str = ""
    stop: str | None = None
    forbid_scripts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the arguments; lists become tuples."""
        object.__setattr__(self, "actions", _names("actions", self.actions))
        object.__setattr__(self, "forbid_scripts", _names("forbid_scripts", self.forbid_scripts))
        for name in ("require_think", "exactly_one", "ignore_case"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be a bool, got {getattr(self, name)!r}.")
        if not isinstance(self.response_prefix, str):
            raise TypeError(f"response_prefix must be a str, got {self.response_prefix!r}.")
        if self.stop is not None and (not isinstance(self.stop, str) or not self.stop):
            raise ValueError(f"stop must be a non-empty str or None, got {self.stop!r}.")
        if not self.actions:
            raise ValueError("actions must name at least one tag, for example ('action',).")
        tags = self.tags
        for tag in tags:
            if not isinstance(tag, str) or not _TAG_NAME.fullmatch(tag):
                raise ValueError(f"A tag must be a name of ASCII letters, digits, '_' and '-', got {tag!r}.")
        if len({tag.lower() if self.ignore_case else tag for tag in tags}) < len(tags):
            raise ValueError(f"Tags must differ from each other, got {', '.join(tags)}.")
        for script in self.forbid_scripts:
            if script not in _SCRIPTS:
                raise unknown_name("script", script, _SCRIPTS)
        prefix = _Scan(self, self.response_prefix)
        if prefix.reason == "think_order":
            raise ValueError(f"response_prefix {self.response_prefix!r} closes a thought that it does not open.")
        opens_action = prefix.reason is None and not prefix.thoughts and (prefix.open or prefix.num_blocks)
        if self.think is not None and self.require_think and opens_action:
            raise ValueError(
                f"response_prefix {self.response_prefix!r} opens an action before any thought, but a thought is "
                "required; pass think=None or require_think=False."
            )

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags: the thought's first, if there is one."""
        return self.actions if self.think is None else (self.think, *self.actions)

    def instruction(self) -> str:
        """Return the format paragraph of the prompt; every reply that follows it parses."""
        pairs = [f"<{tag}>...</{tag}>" for tag in self.actions]
        sentences = []
        if self.think is not None:
            when = "First reason" if self.require_think else "You may first reason"
            sentences.append(
                f"{when} step by step about the situation, between one pair of tags: <{self.think}>...</{self.think}>."
            )
        then = "Then write" if self.think is not None else "Write"
        if len(pairs) == 1:
            sentences.append(f"{then} your {self.actions[0]} between one pair of these tags: {pairs[0]}.")
        else:
            sentences.append(f"{then} exactly one of {', '.join(pairs[:-1])} or {pairs[-1]}.")
        sentences.append("Text outside these tags is ignored.")
        if self.forbid_scripts:
            sentences.append(f"Do not use letters of these scripts: {', '.join(self.forbid_scripts)}.")
        if self.response_prefix:
            sentences.append(f"Your reply already begins with {self.response_prefix} : continue from there.")
        return " ".join(sentences)

    def parse(self, text: str) -> Parsed:
        """Read one reply: a pure function in time linear in its length. It raises for no string.

        The rules, in order:

        1. ``response_prefix`` is put in front.
        2. The thought is the first think block. A closing think tag without an opening one is ``think_order``;
           a thought left open makes the whole text thought, ``think_unclosed``; none at all is ``think_missing``
           if one is required.
        3. Nothing inside a thought, the first or a later one, is ever read as an action.
        4. The last complete action block after the first thought counts, or ``action_missing``. With
           ``exactly_one``, a second thought or block anywhere is ``action_multiple``; a block around another one
           always is. A block holding blanks only is ``action_empty``.
        5. A letter of a forbidden script in a thought or in the action is ``script``.

        An opening tag that is opened again before it closes counts from its last occurrence.

        Args:
            text: The generated text, without the prefix.

        Raises:
            TypeError: If ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"A reply must be a str, got {type(text).__name__}: {text!r}.")
        text = self.response_prefix + text
        scan = _Scan(self, text)
        thought = scan.thoughts[0].strip() if scan.thoughts else ""
        if scan.reason is not None:
            return _refused(scan.reason, text if scan.reason == "think_unclosed" else thought)
        if self.think is not None and self.require_think and not scan.thoughts:
            return _refused("think_missing", thought)
        if scan.block is None:
            return _refused("action_missing", thought)
        if scan.nested or (self.exactly_one and (scan.num_blocks > 1 or len(scan.thoughts) > 1)):
            return _refused("action_multiple", thought)
        action = text[scan.block.start : scan.block.end].strip()
        if not action:
            return _refused("action_empty", thought)
        if self.forbid_scripts and _has_script([*scan.thoughts, action], self.forbid_scripts):
            return _refused("script", thought)
        return Parsed(action=action, tag=scan.block.tag, thought=thought, format_ok=True, reason="ok")

    def env_action(self, parsed: Parsed) -> str:
        """Return the text to pass to ``env.step``.

        That is the action alone, or the action in its tags where the tag decides what is done; ``""``, which every
        environment refuses, if the form was wrong.
        """
        if not parsed.format_ok or len(self.actions) == 1:
            return parsed.action
        return f"<{parsed.tag}>{parsed.action}</{parsed.tag}>"


class _Scan:
    """One pass over the tags of a text."""

    def __init__(self, spec: TagSpec, text: str) -> None:
        self.thoughts: list[str] = []
        self.block: _Block | None = None
        """The last complete action block after the first thought."""
        self.num_blocks = 0
        """Complete action blocks outside thoughts, those before the first thought included."""
        self.nested = False
        """Whether ``block`` encloses another one."""
        self.open: dict[str, int] = {}
        self.reason: Reason | None = None
        names = {tag.lower() if spec.ignore_case else tag: tag for tag in spec.tags}
        thought_start: int | None = None
        for match in _tag_pattern(spec.tags, spec.ignore_case).finditer(text):
            tag = names[match[2].lower() if spec.ignore_case else match[2]]
            opening = not match[1]
            if tag != spec.think:
                if thought_start is None:
                    self._action_tag(tag, opening, match)
            elif opening:
                if thought_start is None:
                    thought_start = match.end()
                    self.open.clear()  # a block may not run across a thought
            elif thought_start is None:
                self.reason = "think_order"
                return
            else:
                if not self.thoughts:
                    self.block = None
                self.thoughts.append(text[thought_start : match.start()])
                thought_start = None
        if thought_start is not None:
            self.reason = "think_unclosed"

    def _action_tag(self, tag: str, opening: bool, match: re.Match[str]) -> None:
        if opening:
            self.open[tag] = match.end()
        elif tag in self.open:
            start = self.open.pop(tag)
            if self.open:  # what was opened inside this block is its text
                self.open = {other: place for other, place in self.open.items() if place < start}
            self.nested = self.block is not None and self.block.start > start
            self.block = _Block(tag, start, match.start())
            self.num_blocks += 1


@lru_cache(maxsize=64)
def _tag_pattern(tags: tuple[str, ...], ignore_case: bool) -> re.Pattern[str]:
    # ASCII: otherwise the long s and the Kelvin sign would pass for s and k.
    flags = re.ASCII | (re.IGNORECASE if ignore_case else re.NOFLAG)
    return re.compile(f"<(/?)({'|'.join(map(re.escape, tags))})>", flags)


def _refused(reason: Reason, thought: str) -> Parsed:
    return Parsed(action="", tag="", thought=thought, format_ok=False, reason=reason)


def _names(argument: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"{argument} must be a tuple of names, got the str {value!r}; write ({value!r},).")
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{argument} must be a tuple of names, got {value!r}.") from None


def _has_script(texts: Iterable[str], scripts: Iterable[str]) -> bool:
    starts = tuple(start for script in scripts for start in _SCRIPTS[script])
    letters = {letter for text in texts for letter in set(text) if letter.isalpha()}
    return any(unicodedata.name(letter, "").startswith(starts) for letter in letters)
