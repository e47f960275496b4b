"""verl's agent loop that plays one episode of any registered environment."""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from agent_envs.executors import Failure
from agent_envs.prompts.budget import observation_text
from agent_envs.records import Status, Turn
from agent_envs.trainers.verl.config import sections
from agent_envs.trainers.verl.dialogue import Answer, Conversation, Dialogue, Sample
from agent_envs.trainers.verl.envs import env_pool
from agent_envs.trainers.verl.turns import FIELD, EpisodeFacts, Span, pack

_IMAGE_TOKENS = ("image", "video")


class _Once(logging.Filter):
    """Lets each message through once: verl repeats one about the model's type for every rollout."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = message not in self._seen
        self._seen.add(message)
        return new


logging.getLogger("verl.utils.tokenizer.continuous_token_wiring").addFilter(_Once())


class EnvAgentLoop(AgentLoopBase):  # type: ignore[misc]  # verl has no types
    """Plays one rollout: (split, task index, seed) of a row, to one output per turn or one per conversation.

    The environment stays synchronous: every call runs in the pool of its registered executor, so that the other
    rollouts of the process go on meanwhile. What infrastructure breaks becomes rows with mask 0.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section, self.options = sections(self.config)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """Play one episode.

        Args:
            sampling_params: Of verl: temperature, top_p, top_k and so on.
            **kwargs: The columns of the dataset's row; ``extra_info`` names the task.

        Returns:
            At least one output; an episode without a turn gives one with mask 0.
        """
        task = kwargs["extra_info"]
        dialogue = await self._in_thread(self._dialogue)
        episode = _Episode(keep_texts=self.section.similarity is not None, global_steps=kwargs.get("global_steps", 0))
        request_id = uuid4().hex
        async with env_pool(self.section, self.options).lease() as env:
            options = {"split": task["split"], "task_index": int(task["task_index"])}
            outcome = await env.reset(int(task["seed"]), options)
            episode.began(outcome)
            while episode.running:
                ids = await self._in_thread(dialogue.ask, episode.observation, episode.info)
                if ids is None:
                    episode.became_too_long()
                    break
                reply = await self.server_manager.generate(
                    request_id=request_id,
                    prompt_ids=ids,
                    sampling_params=self._sampling(sampling_params, dialogue),
                    image_data=dialogue.images or None,
                )
                episode.served(reply.extra_fields)
                answer = await self._in_thread(dialogue.answer, reply.token_ids, reply.log_probs)
                episode.acted(answer, await env.step(answer.action))
        return self._outputs(dialogue, episode)

    async def _in_thread(self, function: Any, *args: Any) -> Any:
        return await self.loop.run_in_executor(None, functools.partial(function, *args))

    def _dialogue(self) -> Dialogue:
        arguments = {
            "builder": self.continuous_token_builder,
            "tokenizer": self.tokenizer,
            "image_tokens": self._image_token_ids(),
            "prompt_length": self.rollout_config.prompt_length,
            "response_length": self.rollout_config.response_length,
        }
        if self.section.context == "concatenated":
            return Conversation(self.section, max_turn_tokens=self.options.max_turn_tokens, **arguments)
        return Dialogue(self.section, **arguments)

    def _image_token_ids(self) -> frozenset[int]:
        if self.processor is None:
            return frozenset()
        self._assert_mm_supported(True)
        found = (getattr(self.processor, f"{kind}_token_id", None) for kind in _IMAGE_TOKENS)
        return frozenset(int(token) for token in found if token is not None)

    def _sampling(self, params: dict[str, Any], dialogue: Dialogue) -> dict[str, Any]:
        """Return a copy, since verl hands one dict to all rollouts and engines take keys out of it."""
        sampling = {**params, "max_tokens": dialogue.room()}
        if dialogue.spec.stop:
            sampling["stop"] = [dialogue.spec.stop]
            if self.rollout_config.name == "vllm":
                sampling["include_stop_str_in_output"] = True
        return sampling

    def _outputs(self, dialogue: Dialogue, episode: _Episode) -> list[AgentLoopOutput]:
        facts = episode.facts(dialogue)
        samples, spans = dialogue.samples, episode.spans(dialogue)
        if episode.num_turns == 0:
            # verl needs a row to know of the episode; it is masked like those of errors.
            eos = [int(self.tokenizer.eos_token_id)]
            samples, spans = [Sample(prompt_ids=eos, response_ids=eos, mask=[0], logprobs=[0.0])], [[]]
        weightless = bool(facts.infra_error)
        return [
            self._output(sample, own, facts, episode, weightless) for sample, own in zip(samples, spans, strict=True)
        ]

    def _output(
        self, sample: Sample, spans: list[Span], facts: EpisodeFacts, episode: _Episode, weightless: bool
    ) -> AgentLoopOutput:
        extra = {
            **episode.server_fields,
            # An episode lost to infrastructure is neither a success nor a failure; verl reads None as no value.
            "reward_extra_info": {
                "acc": None if weightless else float(facts.success),
                "score": None if weightless else facts.score,
                "outcome": facts.outcome,
                "infra_error": float(weightless),
            },
            FIELD: pack(spans, facts),
        }
        return AgentLoopOutput(
            prompt_ids=sample.prompt_ids,
            response_ids=sample.response_ids,
            response_mask=[0] * len(sample.mask) if weightless else sample.mask,
            response_logprobs=sample.logprobs if self.rollout_config.calculate_log_probs else None,
            multi_modal_data={"images": list(sample.images)} if sample.images else None,
            reward_score=facts.outcome,
            num_turns=facts.num_turns,
            metrics={},
            extra_fields=extra,
        )


class _Episode:
    """What the environment said in one episode, as turns."""

    def __init__(self, *, keep_texts: bool, global_steps: int) -> None:
        self.observation: Any = None
        self.info: dict[str, Any] = {}
        # verl counts with these even for an episode that no engine was asked for.
        self.server_fields: dict[str, Any] = {"min_global_steps": global_steps, "max_global_steps": global_steps}
        self._served = False
        self._first_info: dict[str, Any] = {}
        self._turns: list[Turn] = []
        self._texts: list[tuple[str, str]] = []
        self._keep_texts = keep_texts
        self._infra_error = ""
        self._ended = self._too_long = False
        self._num_image_tokens = 0

    @property
    def running(self) -> bool:
        return not self._ended and not self._infra_error

    @property
    def num_turns(self) -> int:
        return len(self._turns)

    def began(self, outcome: Any) -> None:
        if isinstance(outcome, Failure):
            self._infra_error = outcome.text("reset")
        else:
            self.observation, _, _, _, self.info = outcome
            self._first_info = self.info

    def became_too_long(self) -> None:
        self._too_long = self._ended = True
        if self._turns:
            last = self._turns[-1]
            self._turns[-1] = dataclasses.replace(last, truncated=True, status=Status.TRUNCATED_LENGTH)

    def served(self, fields: dict[str, Any]) -> None:
        """Keep the rollout engine's figures; an episode spans the versions of weights of all its replies."""
        before = self.server_fields
        self.server_fields = {**before, **fields}
        for key, choose in (("min_global_steps", min), ("max_global_steps", max)):
            new = before[key] if fields.get(key) is None else fields[key]
            self.server_fields[key] = choose(before[key], new) if self._served else new
        self._served = True

    def acted(self, answer: Answer, outcome: Any) -> None:
        before, observation = self.info, self.observation
        reward, terminated, truncated = 0.0, False, True
        valid, status = False, Status.RUNNING
        if isinstance(outcome, Failure):
            self._infra_error = outcome.text(f"step of {before['task_id']}")
            status = outcome.status
        else:
            self.observation, reward, terminated, truncated, self.info = outcome
            valid = bool(self.info["action_is_valid"])
            if terminated:
                status = Status.COMPLETED
            elif truncated:
                status = Status.TRUNCATED_MAX_TURNS
        self._ended = terminated or truncated
        self._num_image_tokens += answer.cut_at_image_token
        if self._keep_texts:
            self._texts.append((observation_text(observation), observation_text(self.observation)))
        self._turns.append(
            Turn(
                group=-1,  # the row's key decides group and member
                member=-1,
                turn=len(self._turns),
                task_id=before["task_id"],
                state_key=before["state_key"],
                next_state_key=self.info["state_key"],
                action=answer.action,
                reward=float(reward),
                terminated=bool(terminated),
                truncated=bool(truncated),
                success=bool(self.info["success"]),
                action_is_valid=valid,
                format_ok=answer.parsed.format_ok,
                status=status,
            )
        )

    def facts(self, dialogue: Dialogue) -> EpisodeFacts:
        """Return what is known of the whole episode."""
        return EpisodeFacts(
            task_id=self.info.get("task_id", ""),
            kind=str(self.info.get("task_type", "")),
            first_state_key=self._first_info.get("state_key", ""),
            success=bool(self.info.get("success", False)),
            score=float(self.info.get("score", 0.0)),
            outcome=sum(turn.reward for turn in self._turns),
            num_turns=len(self._turns),
            infra_error=self._infra_error,
            too_long=self._too_long,
            num_turns_dropped=dialogue.num_turns_dropped,
            num_chars_cut=dialogue.num_chars_cut,
            num_image_tokens=self._num_image_tokens,
        )

    def spans(self, dialogue: Dialogue) -> list[list[Span]]:
        """Return the turns of each sample."""
        turns = iter(enumerate(self._turns))
        result = []
        for sample in dialogue.samples:
            own = []
            for start, end in sample.spans:
                place, turn = next(turns)
                text, next_text = self._texts[place] if self._texts else ("", "")
                own.append(Span(turn=turn, start=start, end=end, state_text=text, next_state_text=next_text))
            result.append(own)
        return result
