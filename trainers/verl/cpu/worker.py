"""verl's workers on a CPU: a gloo process group, and its FSDP2 engine registered for the device "cpu"."""

from __future__ import annotations

import os
from typing import Any

import ray
import torch.distributed as dist
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


class _CpuBuild:
    """Builds without pinned memory, which needs an accelerator."""

    engine_config: Any

    def _build_fsdp_module(self, module: Any) -> Any:
        # A module that only runs forward (the KL reference) would be offloaded to pinned CPU memory.
        forward_only = self.engine_config.forward_only
        object.__setattr__(self.engine_config, "forward_only", False)  # the dataclass is frozen
        try:
            return super()._build_fsdp_module(module)  # type: ignore[misc]
        finally:
            object.__setattr__(self.engine_config, "forward_only", forward_only)


def _register_engines() -> None:
    for kind, base in (("language_model", FSDPEngineWithLMHead), ("value_model", FSDPEngineWithValueHead)):
        if "cpu" not in EngineRegistry._engines[kind]["fsdp2"]:
            engine = type(f"Cpu{base.__name__}", (_CpuBuild, base), {})
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
