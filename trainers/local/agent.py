"""The agent between environments and model: memory, prompt, tokens, reply, parsed action, for a batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.memory.base import Memory
from agent_envs.memory.registry import make_memory, memory_path
from agent_envs.prompts import Budget, Prompt, PromptBuilder
from agent_envs.tags import Parsed
from agent_envs.trainers.local.generation import Reply, generate
from agent_envs.trainers.local.policy import Policy
from agent_envs.trainers.local.report import Stopwatch
from agent_envs.trainers.recipe import AgentEnvsSection, LocalSection

RowSeed = Callable[[int, str, int], int]
"""``row_seed(row, task_id, turn)``: what the random draws of one reply depend on, and nothing else."""
_CACHED_PROMPTS = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What the agent did in one row."""

    prompt_ids: list[int]  # [num_prompt_tokens]
    """What the model read, the start of the reply included."""
    reply: Reply | None
    """None if the prompt did not fit: the episode has to end."""
    parsed: Parsed | None
    action: str
    """Text for ``env.step``; empty, which every environment refuses, for a malformed reply."""
    num_turns_dropped: int
    """Past turns that did not fit into the prompt."""
    num_chars_cut: int
    """Characters cut out of the observation."""


def row_info(infos: Mapping[str, Any], row: int) -> dict[str, Any]:
    """Return the info of one row of a batch: the keys whose mask is set there."""
    return {key[1:]: infos[key[1:]][row] for key, mask in infos.items() if key[0] == "_" and mask[row]}


def make_builder(section: AgentEnvsSection, budget: Budget | None = None) -> PromptBuilder:
    """Return the prompt builder of a recipe.

    Raises:
        ValueError: If the observations hold images: the models of this trainer read text only.
    """
    builder = PromptBuilder.for_env(
        section.env_id, template=section.prompt, obs_mode=section.env_kwargs.get("obs_mode"), budget=budget
    )
    if builder.obs_mode != "text":
        raise ValueError(
            f"{section.env_id} shows images (obs_mode {builder.obs_mode!r}), the local trainer trains text models. "
            "Set agent_envs.env_kwargs.obs_mode=text."
        )
    return builder


class Prompter:
    """One memory per row, and the prompts they lead to. Only rows that act are asked, stored and rendered."""

    def __init__(self, section: AgentEnvsSection, budget: Budget | None = None) -> None:
        self.section, self.builder = section, make_builder(section, budget)
        # The template's history length and style are arguments of the shipped memories, not of a user's.
        shipped = memory_path(section.memory).startswith("agent_envs.memory.")
        self._memory_kwargs = {**(self.builder.memory_kwargs if shipped else {}), **section.memory_kwargs}
        self._memories: dict[int, Memory] = {}
        self._actions: dict[int, str] = {}

    def prompt(self, row: int, observation: Any, info: Mapping[str, Any]) -> Prompt:
        """Return the next prompt of a row; at turn 0 its memory starts anew."""
        if info["turn"] == 0:
            if row not in self._memories:
                self._memories[row] = make_memory(self.section.memory, **self._memory_kwargs)
            self._memories[row].reset(task_id=info["task_id"], observation=observation)
        else:
            self._memories[row].store(observation=observation, action=self._actions[row], info=info)
        return self.builder.build(observation=observation, info=info, memory=self._memories[row])

    def acted(self, row: int, action: str) -> None:
        """Note what a row did; it enters the memory with the observation that follows."""
        self._actions[row] = action


class Agent:
    """A policy that plays rows of a batch of environments.

    Args:
        policy: Model and tokenizer.
        section: The recipe's environment section.
        local: The recipe's hyper-parameters.
        temperature: Sampling temperature, 0 for greedy.
        row_seed: What a reply's random draws depend on.
        watch: Takes the time of the stages ``prompt`` and ``generate``.
    """

    def __init__(
        self,
        policy: Policy,
        section: AgentEnvsSection,
        local: LocalSection,
        *,
        temperature: float,
        row_seed: RowSeed,
        watch: Stopwatch | None = None,
    ) -> None:
        self.policy, self.section, self.local = policy, section, local
        self.temperature, self.row_seed, self.watch = temperature, row_seed, watch or Stopwatch()
        self._encoded: dict[str, list[int]] = {}
        self._prefix = policy.encode(make_builder(section).spec.response_prefix)
        self._prompter = Prompter(section, Budget(local.max_prompt_tokens, lambda text: len(self._encode(text))))
        self.spec = self._prompter.builder.spec
        self._stop = policy.stop(self.spec.stop)
        self._conversations: dict[int, list[int]] = {}

    def decide(self, observations: Sequence[Any], infos: Mapping[str, Any], rows: Sequence[int]) -> list[Decision]:
        """Return one decision per entry of ``rows``; no other row is prompted, generated for or remembered."""
        with self.watch.stage("prompt"):
            seen = [observations[row] for row in rows]
            facts = [row_info(infos, row) for row in rows]
            prompts = [self._prompter.prompt(*item) for item in zip(rows, seen, facts, strict=True)]
            ids = [self._ids(*item) for item in zip(rows, prompts, facts, seen, strict=True)]
        with self.watch.stage("generate"):
            replies = self._generate(rows, ids, facts)
        with self.watch.stage("prompt"):
            return [self._finish(*item) for item in zip(rows, prompts, ids, replies, strict=True)]

    def __call__(self, observations: Any, infos: dict[str, Any], rows: npt.NDArray[np.int64]) -> list[str]:
        """Play as :func:`agent_envs.panels.evaluate` asks."""
        return [decision.action for decision in self.decide(observations, infos, rows.tolist())]

    def _encode(self, text: str) -> list[int]:
        if text not in self._encoded:
            if len(self._encoded) >= _CACHED_PROMPTS:
                self._encoded.clear()
            self._encoded[text] = self.policy.encode_prompt(text) + self._prefix
        return self._encoded[text]

    def _ids(self, row: int, prompt: Prompt, info: Mapping[str, Any], observation: str) -> list[int]:
        """Return what the model reads; empty if it is too long."""
        if self.section.context == "step":
            return self._encode(prompt.text) if prompt.fits else []
        if info["turn"] == 0:
            ids = self._encode(prompt.text)
        else:
            ids = self._conversations[row] + self.policy.encode_next_message(observation) + self._prefix
        return ids if len(ids) <= self.local.max_prompt_tokens else []

    def _generate(
        self, rows: Sequence[int], ids: Sequence[list[int]], facts: Sequence[Mapping[str, Any]]
    ) -> list[Reply | None]:
        replies: list[Reply | None] = [None] * len(rows)
        going = [place for place in range(len(rows)) if ids[place]]
        for start in range(0, len(going), self.local.generate_batch_rows):
            places = going[start : start + self.local.generate_batch_rows]
            seeds = [self.row_seed(rows[p], facts[p]["task_id"], int(facts[p]["turn"])) for p in places]
            uniforms = [np.random.Generator(np.random.PCG64(s)).random(self.local.max_response_tokens) for s in seeds]
            sampled = generate(
                self.policy.model,
                [ids[place] for place in places],
                uniforms=np.array(uniforms),
                temperature=self.temperature,
                eos_ids=self.policy.eos_ids,
                stop=self._stop,
                autocast=self.policy.autocast,
            )
            for place, reply in zip(places, sampled, strict=True):
                replies[place] = reply
        return replies

    def _finish(self, row: int, prompt: Prompt, ids: list[int], reply: Reply | None) -> Decision:
        parsed = None if reply is None else self.spec.parse(self.policy.decode(reply.ids))
        action = "" if parsed is None else self.spec.env_action(parsed)
        # A refused reply is remembered as the policy wrote it: the text the parser saw, not the empty action.
        text = action if parsed is None or parsed.format_ok or reply is None else self.policy.decode(reply.ids)
        self._prompter.acted(row, text)
        if reply is not None and self.section.context == "concatenated":
            ended = reply.ids[-1] in self.policy.eos_ids
            self._conversations[row] = ids + (reply.ids[:-1] if ended else reply.ids)
        return Decision(
            prompt_ids=ids,
            reply=reply,
            parsed=parsed,
            action=action,
            num_turns_dropped=prompt.num_turns_dropped,
            num_chars_cut=prompt.num_chars_cut,
        )
