"""From observations to token ids and back, for one episode: one prompt per turn, or one growing conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_envs.memory.registry import make_memory, memory_path
from agent_envs.prompts import Budget, Prompt, PromptBuilder
from agent_envs.prompts.budget import IMAGE_MARKER, observation_text
from agent_envs.tags import Parsed
from agent_envs.trainers.recipe import AgentEnvsSection

_PROBE = "x"  # any text: its tokens are subtracted again


@dataclass(kw_only=True, slots=True)
class Sample:
    """One training sample: a prompt and its response, of which the tokens with mask 1 are the policy's."""

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = field(default_factory=list)
    """None where the rollout engine gives none."""
    images: tuple[Any, ...] = ()
    """PIL images of the prompt."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of each reply in the response."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a reply was read as."""

    action: str
    """Text for ``env.step``; empty, which every environment refuses, for a malformed reply."""
    parsed: Parsed
    cut_at_image_token: bool
    """The reply held an image or video token of its own and was cut before it."""


class Dialogue:
    """One episode of ``context: step``: every turn is a sample of its own with the memory's view.

    Args:
        section: The recipe's environment section.
        builder: verl's ContinuousTokenBuilder of the model.
        tokenizer: The model's tokenizer.
        image_tokens: Ids that stand for images and videos; a reply is cut before one, because position ids cannot be
            made for an image that is not there.
        prompt_length: Longest prompt in tokens.
        response_length: Longest response in tokens.
    """

    def __init__(
        self,
        section: AgentEnvsSection,
        *,
        builder: Any,
        tokenizer: Any,
        image_tokens: frozenset[int],
        prompt_length: int,
        response_length: int,
    ) -> None:
        self.section, self.builder, self.tokenizer = section, builder, tokenizer
        self.prompt_length, self.response_length = prompt_length, response_length
        self.samples: list[Sample] = []
        self.num_turns_dropped = self.num_chars_cut = 0
        self._image_tokens = image_tokens
        self._image_cost = 0
        self._lengths: dict[str, int] = {}
        spec = PromptBuilder.for_env(
            section.env_id, template=section.prompt, obs_mode=section.env_kwargs.get("obs_mode")
        ).spec
        self._prefix = self._encode(spec.response_prefix)
        self._prompts = PromptBuilder.for_env(
            section.env_id,
            template=section.prompt,
            obs_mode=section.env_kwargs.get("obs_mode"),
            budget=Budget(max(0, prompt_length - len(self._prefix)), self._count),
        )
        self.spec = self._prompts.spec
        # The template's history length and style are arguments of the shipped memories, not of a user's.
        shipped = memory_path(section.memory).startswith("agent_envs.memory.")
        kwargs = {**(self._prompts.memory_kwargs if shipped else {}), **section.memory_kwargs}
        self._memory = make_memory(section.memory, **kwargs)
        self._acted = ""

    def ask(self, observation: Any, info: Mapping[str, Any]) -> list[int] | None:
        """Return what the model reads before its next reply, or None if that is too long: the episode has to end."""
        prompt = self._prompt(observation, info)
        ids = self._prompt_ids(prompt)
        if ids is None:
            return None
        self.samples.append(Sample(prompt_ids=ids, images=prompt.images))
        return ids

    @property
    def images(self) -> list[Any]:
        """Images of the prompt that was last asked."""
        return list(self.samples[-1].images)

    def room(self) -> int:
        """Return how many tokens the next reply may have."""
        return self.response_length

    def answer(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> Answer:
        """Note the reply to the prompt that was last asked, and read it.

        The sampled ids are what is trained on; text made from them is only parsed.
        """
        sample = self.samples[-1]
        end = next((place for place, token in enumerate(ids) if token in self._image_tokens), len(ids))
        cut = end < len(ids)
        kept = list(ids[: min(end, self.room())])
        mask = [1] * len(kept)
        # Every sample needs a token; without one of the policy's own this one is not trained on.
        filler = [] if kept else [int(self.tokenizer.eos_token_id)]
        start = len(sample.response_ids)
        sample.response_ids += kept + filler
        sample.mask += mask + [0] * len(filler)
        if logprobs is None:
            sample.logprobs = None
        elif sample.logprobs is not None:
            sample.logprobs += [*logprobs[: len(kept)], *[0.0] * len(filler)]
        sample.spans.append((start, start + len(kept)))
        text = self._decode(kept)
        parsed = self.spec.parse(text)
        action = self.spec.env_action(parsed)
        # A refused reply is remembered as the policy wrote it: the text the parser saw, not the empty action.
        self._acted = action if parsed.format_ok else text
        return Answer(action=action, parsed=parsed, cut_at_image_token=cut)

    # ------------------------------------------------------------------ prompts

    def _prompt(self, observation: Any, info: Mapping[str, Any]) -> Prompt:
        if info["turn"] == 0:
            self._memory.reset(task_id=info["task_id"], observation=observation)
        else:
            self._memory.store(observation=observation, action=self._acted, info=info)
        if self._prompts.obs_mode != "text":
            self._image_cost = self._cost_of_image(observation["image"])
        prompt = self._prompts.build(observation=observation, info=info, memory=self._memory)
        self.num_turns_dropped += prompt.num_turns_dropped
        self.num_chars_cut += prompt.num_chars_cut
        self._lengths.clear()
        return prompt

    def _prompt_ids(self, prompt: Prompt) -> list[int] | None:
        if not prompt.fits:
            return None
        # Images travel beside the messages; their parts only mark the places.
        messages = prompt.messages()
        if prompt.images:
            parts = [part if part["type"] == "text" else {"type": "image"} for part in messages[0]["content"]]
            messages = [{"role": "user", "content": parts}]
        ids = self._render(messages, list(prompt.images) or None) + self._prefix
        return ids if len(ids) <= self.prompt_length else None

    def _render(self, messages: list[dict[str, Any]], images: list[Any] | None = None) -> list[int]:
        return list(self.builder.build_initial_tokens(messages, images=images))

    def _count(self, text: str) -> int:
        if text not in self._lengths:
            words = text.replace(IMAGE_MARKER, "")
            images = text.count(IMAGE_MARKER) * self._image_cost
            self._lengths[text] = len(self._render([{"role": "user", "content": words}])) + images
        return self._lengths[text]

    def _cost_of_image(self, image: Any) -> int:
        from PIL import Image

        picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
        parts = [{"type": "image"}, {"type": "text", "text": _PROBE}]
        bare = self._render([{"role": "user", "content": _PROBE}])
        return len(self._render([{"role": "user", "content": parts}], [picture])) - len(bare)

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def _decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply without the end token; other special tokens stay visible: they are no action."""
        ends = (self.tokenizer.eos_token_id, self.tokenizer.pad_token_id)
        last = len(ids) - (1 if ids and ids[-1] in ends else 0)
        text: str = self.tokenizer.decode(list(ids[:last]), clean_up_tokenization_spaces=False)
        return text


class Conversation(Dialogue):
    """One episode of ``context: concatenated``: the task once, then replies and observations as chat turns.

    There is one sample; the response holds all replies (mask 1) and what the environment said between them (mask 0).

    Args:
        section: The recipe's environment section.
        max_turn_tokens: Longest single reply, None for what is left of the response.
        **kwargs: As for :class:`Dialogue`.
    """

    def __init__(self, section: AgentEnvsSection, *, max_turn_tokens: int | None = None, **kwargs: Any) -> None:
        super().__init__(section, **kwargs)
        self._max_turn_tokens = max_turn_tokens
        self._messages: list[dict[str, Any]] = []

    def ask(self, observation: Any, info: Mapping[str, Any]) -> list[int] | None:
        """Return the conversation so far with the observation as the next message, or None if it is too long."""
        if not self.samples:
            prompt = self._prompt(observation, info)
            ids = self._prompt_ids(prompt)
            if ids is not None:
                self._messages = prompt.messages()
                self.samples.append(Sample(prompt_ids=ids))
            return ids
        reply = {"role": "assistant", "content": self._acted}
        message = {"role": "user", "content": observation_text(observation)}
        before = [*self._messages, reply]
        if not self._merge(before, [*before, message]):
            return None
        self._messages = [*before, message]
        return self.samples[0].prompt_ids + self.samples[0].response_ids

    def room(self) -> int:
        """Return how many tokens the next reply may have."""
        left = self.response_length - len(self.samples[0].response_ids)
        return left if self._max_turn_tokens is None else min(left, self._max_turn_tokens)

    def _merge(self, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
        """Append a message to the response; return False, and change nothing, if no room for a reply is left."""
        sample = self.samples[0]
        merged = self.builder.merge_context_tokens(before, after, sample.prompt_ids + sample.response_ids)
        mask, logprobs = self.builder.align_response_metadata(merged, sample.mask, sample.logprobs)
        response = [*merged.token_ids[len(sample.prompt_ids) :], *self._prefix]
        if len(response) >= self.response_length:
            return False
        start, end = sample.spans[-1]
        sample.spans[-1] = (start, min(end, len(sample.response_ids) - merged.removed_prefix_token_count))
        sample.response_ids = response
        sample.mask = mask + [0] * len(self._prefix)
        sample.logprobs = None if logprobs is None else logprobs + [0.0] * len(self._prefix)
        return True
