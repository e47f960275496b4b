"""verl's workers on a CPU: a gloo process group, and its FSDP2 engine registered for the device "cpu"."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import ray
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from transformers import AutoModelForTokenClassification
from verl.utils.fsdp_utils import merged_lora_context, normalize_peft_param_name
from verl.utils.model import convert_weight_keys
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


class _CpuEngine:
    """Builds without pinned memory, which needs an accelerator, and sends weights unrounded."""

    engine_config: Any
    module: Any

    def _build_fsdp_module(self, module: Any) -> Any:
        # A module that only runs forward (the KL reference) would be offloaded to pinned CPU memory.
        forward_only = self.engine_config.forward_only
        object.__setattr__(self.engine_config, "forward_only", False)  # the dataclass is frozen
        try:
            return super()._build_fsdp_module(module)  # type: ignore[misc]
        finally:
            object.__setattr__(self.engine_config, "forward_only", forward_only)

    def _merged_lora_per_tensor_param(self) -> Iterator[tuple[str, torch.Tensor]]:
        # verl rounds merged weights to bfloat16; the CPU rollout computes in float32 and would differ by up to 1 %.
        with merged_lora_context(self.module, backup_adapters=True):
            state = normalize_peft_param_name(self.module.state_dict())
            for name, tensor in convert_weight_keys(state, self.module).items():
                yield name, tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach().clone()


class _CpuPolicyEngine(_CpuEngine, FSDPEngineWithLMHead):  # type: ignore[misc]
    """Actor and reference."""


class _CpuValueEngine(_CpuEngine, FSDPEngineWithValueHead):  # type: ignore[misc]
    """Critic, in float32, without padding removal, checkpointing and kernels, which the CPU recipes switch off."""

    def _build_module(self) -> Any:
        # verl loads value models with flash attention, whatever the configuration says.
        config = self.model_config.hf_config
        config.num_labels, config.classifier_dropout = 1, 0.0
        return AutoModelForTokenClassification.from_pretrained(
            self.model_config.local_path,
            dtype=torch.float32,
            config=config,
            trust_remote_code=self.model_config.trust_remote_code,
        )


def _register_engines() -> None:
    for kind, engine in (("language_model", _CpuPolicyEngine), ("value_model", _CpuValueEngine)):
        if "cpu" not in EngineRegistry._engines[kind]["fsdp2"]:
            EngineRegistry.register(model_type=kind, backend=["fsdp", "fsdp2"], device="cpu")(engine)


def _init_gloo() -> None:
    # verl asks torch for "cpu:gloo,cpu:gloo", which torch refuses; it skips that if a group exists.
    _register_engines()
    if not dist.is_initialized():
        dist.init_process_group(
            "gloo",
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )


class CpuActorRolloutRefWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """verl's worker for actor, rollout and reference."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _init_gloo()


class CpuTrainingWorker(TrainingWorker):  # type: ignore[misc]
    """verl's worker for the critic."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _init_gloo()
        super().__init__(*args, **kwargs)


def cpu_worker(remote_class: Any) -> Any:
    """Return the CPU counterpart of one of verl's Ray actor classes."""
    name = remote_class.__ray_metadata__.class_name
    own = {"ActorRolloutRefWorker": CpuActorRolloutRefWorker, "TrainingWorker": CpuTrainingWorker}
    return ray.remote(own[name])
