"""From an observation, its info and a memory to one prompt within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from agent_envs.errors import unknown_name
from agent_envs.prompts.budget import (
    IMAGE_MARKER,
    Budget,
    MemoryView,
    has_image,
    neutralise,
    observation_text,
    with_history,
)
from agent_envs.prompts.fields import FIELDS, HISTORY_FIELDS, OBSERVATION_FIELDS, FieldContext, fill
from agent_envs.prompts.registry import OBS_MODES, env_prompts, find_templates
from agent_envs.prompts.template import Template, TemplateSet, check_tags, count_markers
from agent_envs.tags import ReplySpec, TagSpec

if TYPE_CHECKING:
    from PIL.Image import Image

_EMPTY = MemoryView()


class RendersHistory(Protocol):
    """What the builder needs of a memory."""

    def render(self, budget: Budget) -> MemoryView:
        """Return the history within a budget."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One user message."""

    text: str
    """Holds one ``<image>`` for each of ``images``."""
    images: tuple[Image, ...]
    """In the order of their markers."""
    num_turns_shown: int
    """Past turns shown word for word."""
    num_turns_dropped: int
    """Past turns the memory would have shown if the budget were larger."""
    num_chars_cut: int
    """Characters cut out of the middle of the current observation."""
    length: int
    """Length of ``text`` in the budget's unit."""
    fits: bool
    """False if the prompt is still longer than the budget: end the episode with status ``truncated_length``."""
    response_prefix: str = ""
    """Put this at the start of the assistant's turn before sampling."""

    def messages(self) -> list[dict[str, Any]]:
        """Return the chat: one user message, whose content is a list of parts if there are images.

        Parts are ``{"type": "text", "text": str}`` and ``{"type": "image", "image": PIL image}``, in order.
        """
        if not self.images:
            return [{"role": "user", "content": self.text}]
        parts: list[dict[str, Any]] = []
        for index, text in enumerate(self.text.split(IMAGE_MARKER)):
            if index:
                parts.append({"type": "image", "image": self.images[index - 1]})
            if text:
                parts.append({"type": "text", "text": text})
        return [{"role": "user", "content": parts}]


@dataclass(frozen=True, slots=True)
class _Draft:
    text: str
    images: tuple[Any, ...]
    view: MemoryView


@dataclass(frozen=True, kw_only=True)
class PromptBuilder:
    """Builds the prompts of one environment; stateless, so one builder serves all members.

    Args:
        templates: The two templates.
        spec: Reply format: writes ``{format_instructions}`` and parses the replies.
        obs_mode: ``"text"``, ``"image"`` or ``"image_text"``; in the image modes each template holds one ``<image>``.
        budget: Limit for the whole prompt.
        memory_kwargs: Keyword arguments for :func:`agent_envs.memory.make_memory` that suit the templates.

    Raises:
        ValueError: For an unknown field, a wrong number of markers, or tags the parser does not know.
    """

    templates: TemplateSet
    spec: ReplySpec = TagSpec()
    obs_mode: str = "text"
    budget: Budget = Budget()
    memory_kwargs: Mapping[str, Any] = field(default_factory=dict)
    _first: Template = field(init=False, repr=False, compare=False)
    _later: Template = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read and check the templates."""
        if self.obs_mode not in OBS_MODES:
            raise unknown_name("obs_mode", self.obs_mode, OBS_MODES)
        if not isinstance(self.budget, Budget):
            raise TypeError(f"budget must be a Budget, for example Budget(4000), got {self.budget!r}.")
        wanted = 0 if self.obs_mode == "text" else 1
        for name, text in (("first", self.templates.first), ("later", self.templates.later)):
            template = Template(text, FIELDS)
            if count_markers(template) != wanted:
                raise ValueError(
                    f"The {name} template must hold {wanted} {IMAGE_MARKER} for obs_mode {self.obs_mode!r}, it holds "
                    f"{count_markers(template)}."
                )
            if isinstance(self.spec, TagSpec):
                check_tags(template, self.spec.tags if self.spec.require_think else self.spec.actions)
            object.__setattr__(self, f"_{name}", template)

    @classmethod
    def for_env(
        cls,
        env_id: str,
        *,
        template: str | Path = "papers",
        obs_mode: str | None = None,
        spec: ReplySpec | None = None,
        budget: Budget | None = None,
    ) -> PromptBuilder:
        """Return the builder of an environment.

        Args:
            env_id: For example ``"agent_envs/Sokoban-v0"``. An id without templates gets the generic ones.
            template: ``"papers"``, ``"compact"``, ``"json"`` (card games), a name of :func:`register_template`, or
                the path of a file.
            obs_mode: As given to the environment; None for the environment's default.
            spec: Another reply format than the templates' own.
            budget: Limit for the whole prompt; None for no limit.

        Raises:
            ValueError: If the templates are not found or not consistent.
        """
        own = env_prompts(env_id)
        mode = own.obs_mode if obs_mode is None else obs_mode
        if mode not in OBS_MODES:
            raise unknown_name("obs_mode", mode, OBS_MODES)
        templates = find_templates(env_id, template, mode)
        return cls(
            templates=templates,
            spec=spec or templates.spec or own.spec,
            obs_mode=mode,
            budget=budget or Budget(),
            memory_kwargs={"history_length": own.history_length, "style": templates.style or own.style},
        )

    def build(self, *, observation: Any, info: Mapping[str, Any], memory: RendersHistory | None = None) -> Prompt:
        """Return the prompt for the next action.

        If it is longer than the budget, the memory drops its oldest turns first; if that is not enough, the current
        observation is cut in the middle. Both are counted in the result.

        Args:
            observation: What ``reset`` or ``step`` returned: a str, or a dict with ``"text"`` and ``"image"``.
            info: What came with it; ``info["turn"]`` decides which template is used.
            memory: The member's memory, None for no history.

        Raises:
            ValueError: If the templates need an info key that the environment does not give, or an image is missing.
        """
        if has_image(observation) != (self.obs_mode != "text"):
            got = "an image" if has_image(observation) else "no image"
            raise ValueError(f"The builder was made for obs_mode {self.obs_mode!r}, the observation has {got}.")
        text = observation_text(observation)
        image = observation["image"] if self.obs_mode != "text" else None
        render = _Renderer(self._later if info["turn"] else self._first, info, self.spec, image)
        wanted = memory.render(Budget()) if memory is not None and render.shows_history else _EMPTY
        draft, num_cut = render(text, wanted), 0
        if not self.budget.fits(draft.text) and memory is not None and wanted is not _EMPTY:
            draft = self._drop_turns(render, text, memory)
        if not self.budget.fits(draft.text) and render.shows_observation:
            draft, num_cut = self._cut_observation(render, text)
        return Prompt(
            text=draft.text,
            images=tuple(_pil(item) for item in draft.images),
            num_turns_shown=draft.view.num_turns,
            num_turns_dropped=max(0, wanted.num_turns - draft.view.num_turns),
            num_chars_cut=num_cut,
            length=self.budget.count(draft.text),
            fits=self.budget.fits(draft.text),
            response_prefix=self.spec.response_prefix,
        )

    def _drop_turns(self, render: _Renderer, text: str, memory: RendersHistory) -> _Draft:
        """Give the history what the rest of the prompt leaves; shrink further while token counts do not add up."""
        bare = render(text, _EMPTY)
        assert self.budget.limit is not None
        room = self.budget.limit - self.budget.count(bare.text)
        while room > 0:
            view = memory.render(Budget(room, self.budget.count))
            if not view.text:
                break
            draft = render(text, view)
            excess = self.budget.excess(draft.text)
            if not excess:
                return draft
            room -= excess
        return bare

    def _cut_observation(self, render: _Renderer, text: str) -> tuple[_Draft, int]:
        """Keep as much of both ends of the observation as fits; leave it whole if cutting does not help."""
        low, high = 0, max(0, len(text) - 1)
        while low < high:
            middle = (low + high + 1) // 2
            if self.budget.fits(render(_cut(text, middle), _EMPTY).text):
                low = middle
            else:
                high = middle - 1
        draft = render(_cut(text, low), _EMPTY)
        return (draft, len(text) - low) if self.budget.fits(draft.text) else (render(text, _EMPTY), 0)


class _Renderer:
    """One template with everything that stays the same while a prompt is shortened."""

    def __init__(self, template: Template, info: Mapping[str, Any], spec: ReplySpec, image: Any) -> None:
        self._template, self._info, self._spec, self._image = template, info, spec, image
        self.shows_history = bool(template.fields & HISTORY_FIELDS)
        own_place = bool(template.fields & OBSERVATION_FIELDS)
        self._closes_history = self.shows_history and not own_place and image is None
        self.shows_observation = own_place or self._closes_history

    def __call__(self, text: str, view: MemoryView) -> _Draft:
        history = with_history(view.text, neutralise(text)) if self._closes_history else view.text
        context = FieldContext(observation=text, info=self._info, view=view, history=history, spec=self._spec)
        texts: list[str] = []
        images: list[Any] = []
        for piece, name in self._template.pieces(fill(self._template.fields, context)):
            texts.append(piece)
            if name is None:
                images += [self._image] * piece.count(IMAGE_MARKER)
            elif name in HISTORY_FIELDS:
                images += view.images
        return _Draft("".join(texts), tuple(images), view)


def _cut(text: str, num_kept: int) -> str:
    """Return the text with its middle replaced by a marker; ``num_kept`` characters stay."""
    head = (num_kept + 1) // 2
    tail = num_kept - head
    return f"{text[:head]}[... {len(text) - num_kept} characters cut ...]{text[len(text) - tail :]}"


def _pil(image: Any) -> Image:
    from PIL import Image

    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        raise TypeError(f"An image must be an (H, W, 3) uint8 array or a PIL image, got {type(image).__name__}.")
    return Image.fromarray(image)
