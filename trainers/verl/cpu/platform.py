"""The platform "cpu" for verl: a device module that owns no memory and does nothing."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

_NOTHING = (
    "set_device",
    "synchronize",
    "empty_cache",
    "manual_seed",
    "manual_seed_all",
    "set_rng_state",
    "reset_peak_memory_stats",
    "ipc_collect",
    "set_per_process_memory_fraction",
)
_ZERO = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "current_device")


def _device_module() -> types.ModuleType:
    """Return what verl uses as ``torch.cuda``: "not available" makes it skip memory and generator bookkeeping."""
    functions: dict[str, Any] = {name: lambda *args, **kwargs: None for name in _NOTHING}
    functions |= {name: lambda *args, **kwargs: 0 for name in _ZERO}
    functions |= {
        "is_available": lambda: False,
        "device_count": lambda: 1,
        "mem_get_info": lambda *args: (0, 0),
        "get_device_name": lambda *args: "cpu",
        "get_device_properties": lambda *args: types.SimpleNamespace(name="cpu", total_memory=0),
        "Stream": torch.cpu.Stream,
        "stream": torch.cpu.stream,
        "current_stream": torch.cpu.current_stream,
        "Event": torch.cpu.Event,
    }
    module = types.ModuleType("agent_envs_cpu_device")
    vars(module).update(functions)
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """Chosen by ``VERL_PLATFORM=cpu`` only, never found by itself."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        """Return True: a CPU is there."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return False: verl must not choose it over an accelerator."""
        return False

    def current_device(self) -> torch.device:
        """Return the device that verl moves tensors to."""
        return torch.device("cpu")

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Do nothing."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Do nothing."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch's generator, as verl asks in its own workers."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch's generator."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """Do nothing."""

    def empty_cache(self) -> None:
        """Do nothing."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        """Return no capability."""
        return None, None

    def communication_backend_name(self) -> str:
        """Return gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Return a variable that exists; nothing reads it."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Mark nothing."""
        yield

    def profiler_start(self) -> None:
        """Do nothing."""

    def profiler_stop(self) -> None:
        """Do nothing."""

    def ray_resource_name(self) -> str:
        """Return GPU: verl counts GPUs, the recipes declare one per rank to Ray."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Return none."""
        return []

    def is_ipc_supported(self) -> bool:
        """Return False."""
        return False

    def cudart(self) -> None:
        """Return no CUDA runtime."""
