"""State keys: process-independent digests of canonical states, and the registry of key functions."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agent_envs.errors import unknown_name

if TYPE_CHECKING:
    from agent_envs.core import AgentEnv

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]
"""A JSON value; tuples are accepted where lists are."""

StateKeyFn = Callable[["AgentEnv"], Any]

# One encoder for all calls: json.dumps builds a new one for every call with non-default options.
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return the one text of a JSON value: sorted keys, no blanks.

    Keys of dicts should be str: JSON writes 1, True and None as the texts "1", "true" and "null".

    Raises:
        TypeError: If the value holds anything but JSON values (a set, an array, an object).
        ValueError: If it holds NaN or infinity.
    """
    return _ENCODER.encode(value)


def digest(text: str, *, size: int = 16) -> str:
    """Return the hexadecimal blake2b digest of ``size`` bytes (``hash()`` is salted per process)."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def state_digest(class_name: str, version: int, task_id: str, state: Any) -> str:
    """Return the 16-byte state key of a canonical state as 32 hexadecimal digits.

    The task is part of the digest, so step groups cannot cross tasks.
    """
    return digest(f"{class_name}/{version}/{task_id}\0{canonical_json(state)}")


def _canonical(env: AgentEnv) -> Any:
    return env.canonical_state()


def _observation(env: AgentEnv) -> Any:
    return observation_json(env._observe())


_REGISTRY: dict[str, StateKeyFn | str] = {"canonical": _canonical, "observation": _observation}


def observation_json(observation: Any) -> Any:
    """Return a JSON value that is equal iff two observations of a space are: arrays become shape, dtype and digest."""
    if isinstance(observation, dict):
        return {key: observation_json(value) for key, value in observation.items()}
    if isinstance(observation, (tuple, list)):
        return [observation_json(value) for value in observation]
    if isinstance(observation, np.generic):  # of a Discrete space
        return observation.item()
    if isinstance(observation, np.ndarray):
        pixels = hashlib.blake2b(np.ascontiguousarray(observation).tobytes(), digest_size=16).hexdigest()
        return [list(observation.shape), str(observation.dtype), pixels]
    return observation


def register_state_key(name: str, function: StateKeyFn | str) -> None:
    """Register a key function under a name for ``gym.make(id, state_key=name)``.

    Args:
        name: The new name.
        function: A function from the environment to a JSON value, or its dotted path ``"module:function"``.

    Raises:
        ValueError: If the name is taken by another function.
    """
    if _REGISTRY.get(name, function) is not function and _REGISTRY[name] != function:
        raise ValueError(f"state_key {name!r} is registered already, choose another name.")
    _REGISTRY[name] = function


def get_state_key(name: str) -> StateKeyFn:
    """Return the registered key function.

    Raises:
        ValueError: If the name is unknown; the text lists the known names.
    """
    if not isinstance(name, str) or name not in _REGISTRY:
        raise unknown_name("state_key", name, _REGISTRY)
    function = _REGISTRY[name]
    if isinstance(function, str):
        module, _, attribute = function.partition(":")
        function = cast(StateKeyFn, getattr(importlib.import_module(module), attribute))
        _REGISTRY[name] = function
    return function
