"""A wrapper that puts a memory's view in front of each observation."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from agent_envs.errors import SnapshotError
from agent_envs.memory.base import check_length
from agent_envs.memory.registry import make_memory, memory_path
from agent_envs.prompts.budget import IMAGE_DROPPED, IMAGE_MARKER, Budget, observation_text, with_history
from agent_envs.spaces import FreeText

_FORMAT = 1


class MemoryObservation(gym.Wrapper[Any, str, Any, str], gym.utils.RecordConstructorArgs):
    """Observation = history, then the current observation. Keys, rewards, flags and info are the environment's.

    ``gym.make(id, memory="window", memory_kwargs={"history_length": 2})`` wraps each member in one of these. A dict
    with an image keeps its current image; its text gets the history. A step after the end of the episode is not stored.

    Args:
        env: An environment whose observation is text, or a dict with text.
        name: The memory: a name or a path (see :func:`make_memory`).
        max_history_chars: Longest history; the oldest turns go first. None for no limit.
        **memory_kwargs: Keyword arguments of the memory.

    Raises:
        TypeError: If the observation space holds no text, or the memory does not take the arguments.
        ValueError: For an unknown memory or a wrong value.
    """

    def __init__(
        self, env: gym.Env[Any, str], name: str, *, max_history_chars: int | None = None, **memory_kwargs: Any
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, name=name, max_history_chars=max_history_chars, **memory_kwargs)
        super().__init__(env)
        self._budget = Budget(check_length("max_history_chars", max_history_chars))
        self._name, self._memory_kwargs = name, memory_kwargs
        self.memory = make_memory(name, **memory_kwargs)
        """The member's memory."""
        self.observation_space = _with_longer_text(env.observation_space, max_history_chars)
        self._ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with an empty memory."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory.reset(task_id=str(info.get("task_id", "")), observation=observation)
        self._ended = False
        return self._observe(observation), info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play a turn and store it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not self._ended:
            self.memory.store(observation=observation, action=action, info=info)
        self._ended = terminated or truncated
        return self._observe(observation), reward, terminated, truncated, info

    def _observe(self, observation: Any) -> Any:
        history = self.memory.render(self._budget).text.replace(IMAGE_MARKER, IMAGE_DROPPED)
        text = with_history(history, observation_text(observation))
        return {**observation, "text": text} if isinstance(observation, dict) else text

    def snapshot(self) -> bytes:
        """Return the environment's snapshot together with the memory's state, as versioned JSON bytes."""
        inner: bytes = self.env.get_wrapper_attr("snapshot")()
        data = {
            "format": _FORMAT,
            "memory": memory_path(self._name),
            "memory_state": self.memory.state_dict(),
            "ended": self._ended,
            "env": base64.b64encode(inner).decode("ascii"),
        }
        return json.dumps(data, separators=(",", ":")).encode()

    def restore(self, snapshot: bytes) -> tuple[Any, dict[str, Any]]:
        """Continue from :meth:`snapshot`; return the observation and info as ``reset`` does.

        Raises:
            SnapshotError: If the bytes are damaged, or of another memory or environment. The episode that was running
                then goes on unchanged.
        """
        try:
            data = json.loads(snapshot)
            if data["format"] != _FORMAT or data["memory"] != memory_path(self._name):
                raise ValueError(f"format {data['format']!r}, memory {data['memory']!r}")
            inner = base64.b64decode(data["env"], validate=True)
            memory = make_memory(self._name, **self._memory_kwargs)
            memory.load_state_dict(data["memory_state"])
            ended = bool(data["ended"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(
                f"Not a snapshot of an environment with memory {self._name!r} and these arguments: {error}."
            ) from None
        observation, info = self.env.get_wrapper_attr("restore")(inner)
        self.memory, self._ended = memory, ended
        return self._observe(observation), info


def _with_longer_text(space: spaces.Space[Any], max_history_chars: int | None) -> spaces.Space[Any]:
    text = space.spaces.get("text") if isinstance(space, spaces.Dict) else space
    if not isinstance(text, (FreeText, spaces.Text)):
        raise TypeError(f"MemoryObservation needs text, or a Dict with 'text', as observation space, got {space}.")
    length = sys.maxsize if max_history_chars is None else text.max_length + max_history_chars + 1
    longer = FreeText(length)
    return spaces.Dict({**space.spaces, "text": longer}) if isinstance(space, spaces.Dict) else longer
