"""Rollout on a CPU: one Ray actor per replica that samples with transformers, and the sender of new weights."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from agent_envs.tasks import derive_seed
from agent_envs.trainers.local.generation import Reply, StopFn, generate

_MAX_BATCH = 256


def _actor_name(rank: int) -> str:
    return f"agent_envs_cpu_server_{rank}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Request:
    prompt_ids: list[int]
    temperature: float
    max_tokens: int
    stop: str
    images: tuple[Any, ...]
    done: asyncio.Future[Reply]

    @property
    def kind(self) -> tuple[float, str]:
        return self.temperature, self.stop


class TransformersServer:
    """Samples replies; requests that wait at the same time share a batch.

    Args:
        model_path: Folder of model, tokenizer and, for images, processor.
        seed: Decides the random draws.
        max_tokens: Longest reply of a request that names none.
    """

    def __init__(self, model_path: str, seed: int, max_tokens: int) -> None:
        from transformers import (
            AutoConfig,
            AutoModelForCausalLM,
            AutoModelForImageTextToText,
            AutoProcessor,
            AutoTokenizer,
        )

        torch.set_num_threads(1)
        self._tokenizer = AutoTokenizer.from_pretrained(model_path)
        sees = hasattr(AutoConfig.from_pretrained(model_path), "vision_config")
        self._processor = AutoProcessor.from_pretrained(model_path) if sees else None
        loader = AutoModelForImageTextToText if sees else AutoModelForCausalLM
        self._model = loader.from_pretrained(model_path, dtype=torch.float32).eval()
        self._rng = np.random.Generator(np.random.PCG64(derive_seed(seed, "sample")))
        torch.manual_seed(derive_seed(seed, "images") % 2**63)
        self._max_tokens = max_tokens
        self._version = 0
        self._waiting: list[_Request] = []
        self._running: asyncio.Task[None] | None = None

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling_params: dict[str, Any],
        image_data: Sequence[Any] | None = None,
        **unused: Any,
    ) -> Any:
        """Return one reply with the log-probabilities of its tokens."""
        stops = sampling_params.get("stop") or [""]
        request = _Request(
            prompt_ids=list(prompt_ids),
            temperature=float(sampling_params.get("temperature", 1.0)),
            max_tokens=int(sampling_params.get("max_tokens") or self._max_tokens),
            stop=stops if isinstance(stops, str) else stops[0],
            images=tuple(image_data or ()),
            done=asyncio.get_running_loop().create_future(),
        )
        self._waiting.append(request)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._work())
        reply = await request.done
        return TokenOutput(
            token_ids=reply.ids,
            log_probs=reply.logprobs,
            stop_reason="completed",
            num_preempted=0,
            extra_fields={"global_steps": self._version},
        )

    async def _work(self) -> None:
        await asyncio.sleep(0.002)  # requests of one batch of environments arrive together
        while self._waiting:
            kind = self._waiting[0].kind
            batch = [request for request in self._waiting if request.kind == kind][:_MAX_BATCH]
            taken = set(map(id, batch))
            self._waiting = [request for request in self._waiting if id(request) not in taken]
            try:
                replies = await asyncio.get_running_loop().run_in_executor(None, self._sample, batch)
            except Exception as error:
                for request in batch:
                    request.done.set_exception(error)
                continue
            for request, reply in zip(batch, replies, strict=True):
                request.done.set_result(reply)

    def _sample(self, batch: list[_Request]) -> list[Reply]:
        if any(request.images for request in batch):
            return [self._sample_with_images(request) for request in batch]
        longest = max(request.max_tokens for request in batch)
        replies = generate(
            self._model,
            [request.prompt_ids for request in batch],
            uniforms=self._rng.random((len(batch), longest)),
            temperature=batch[0].temperature,
            eos_ids=self._eos_ids(),
            stop=self._stop(batch[0].stop),
        )
        return [
            Reply(ids=reply.ids[: r.max_tokens], logprobs=reply.logprobs[: r.max_tokens], finished=reply.finished)
            for reply, r in zip(replies, batch, strict=True)
        ]

    @torch.inference_mode()
    def _sample_with_images(self, request: _Request) -> Reply:
        ids = torch.tensor([request.prompt_ids])
        assert self._processor is not None
        features = self._processor.image_processor(images=list(request.images), return_tensors="pt")
        sampled = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=features["pixel_values"],
            image_grid_thw=features["image_grid_thw"],
            mm_token_type_ids=(ids == self._model.config.image_token_id).long(),
            do_sample=request.temperature > 0,
            temperature=request.temperature or None,
            top_k=0,
            top_p=1.0,
            max_new_tokens=request.max_tokens,
            eos_token_id=self._eos_ids(),
            pad_token_id=self._tokenizer.pad_token_id,
            output_scores=True,
            return_dict_in_generate=True,
        )
        reply = sampled.sequences[0, ids.shape[1] :].tolist()
        logprobs = [
            torch.log_softmax(score[0].float(), -1)[token].item()
            for score, token in zip(sampled.scores, reply, strict=True)
        ]
        return Reply(ids=reply, logprobs=logprobs, finished=reply[-1] in self._eos_ids())

    def _eos_ids(self) -> list[int]:
        configured = self._model.generation_config.eos_token_id
        ids = configured if isinstance(configured, list) else [configured]
        return sorted({int(i) for i in (*ids, self._tokenizer.eos_token_id) if i is not None})

    def _stop(self, text: str) -> StopFn:
        if not text:
            return lambda ids: False
        window = len(text.encode()) + 1
        return lambda ids: text in self._tokenizer.decode(ids[-window:], clean_up_tokenization_spaces=False)

    async def load_weights(self, weights: dict[str, torch.Tensor], version: int | None) -> None:
        """Take new weights.

        Raises:
            ValueError: If a weight is not one of the model's.
        """
        _, unknown = self._model.load_state_dict(weights, strict=False)
        if unknown:
            raise ValueError(f"The trainer sent weights the rollout model does not have: {', '.join(unknown[:3])}.")
        self._version = self._version if version is None else version

    async def ready(self) -> None:
        """Return once the model is loaded."""

    async def wake_up(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: weights and caches stay in memory."""

    sleep = abort_all_requests = resume_generation = clear_kv_cache = wake_up
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = wake_up


class TransformersReplica(RolloutReplica):  # type: ignore[misc]
    """One server per replica; trainer rank i feeds replica i, so tensor parallelism is 1."""

    async def launch_servers(self) -> None:
        """Start the actor."""
        if self.world_size != 1:
            raise ValueError("The CPU rollout has one process per replica: set rollout.tensor_model_parallel_size=1.")
        options = {"name": _actor_name(self.replica_rank), "num_cpus": 0, "max_concurrency": self.max_concurrency}
        seed, longest = self.config.seed + self.replica_rank, self.config.response_length
        server = ray.remote(TransformersServer).options(**options).remote(self.model_config.path, seed, longest)
        await server.ready.remote()
        self.servers, self._server_handle = [server], server
        self._server_address = _actor_name(self.replica_rank)


class WeightSender(BaseRollout):  # type: ignore[misc]
    """Lives in the training worker and sends its weights to the server of the same rank."""

    async def resume(self, tags: list[str]) -> None:
        """Do nothing."""

    async def release(self) -> None:
        """Do nothing."""

    async def update_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None, **unused: Any
    ) -> None:
        """Send all weights; every rank has to take them, or the others wait forever in the gathering of shards."""
        state = {name: tensor.detach().cpu().float().clone() for name, tensor in weights}
        server = ray.get_actor(_actor_name(int(os.environ.get("RANK", "0"))))
        await server.load_weights.remote(state, global_steps)
