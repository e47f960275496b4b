"""The environment base class: an author writes four hooks and a canonical state, the base owns the rest."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Required, TypedDict

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from agent_envs.errors import SnapshotError, did_you_mean
from agent_envs.keys import get_state_key, state_digest
from agent_envs.snapshots import SNAPSHOT_FORMAT, check_fields, read_snapshot
from agent_envs.tasks import check_indices, fingerprint_of, resolve_split

_OPTIONS = ("split", "task_index")


class StepInfo(TypedDict, total=False):
    """Keys of ``info`` from ``reset`` and ``step``; environments may add their own."""

    state_key: Required[str]
    """Digest of the state that the next action is taken in."""
    task_id: Required[str]
    """``"<name>/<split>/<stable id>"``, equal for all members of a group."""
    task: Required[str]
    """The instruction in words."""
    turn: Required[int]
    """Turns used so far."""
    success: Required[bool]
    """The task is solved so far; judged from the game's state."""
    score: Required[float]
    """The environment's own score in [0, 1], 0.0 where it has none."""
    infra_error: Required[str]
    """Empty, or ``"<status>: <what>"`` when infrastructure failed in this row."""
    action_is_valid: bool
    """From ``step`` only: the environment accepted the action."""
    refusal: str
    """From ``step`` only: a short code for why the action was refused, empty if it was accepted."""
    admissible_actions: list[str]
    """Where known: unique, in the environment's documented order."""
    task_type: str
    """Where tasks have kinds: the kind, which panels report by."""
    tool_calls: int
    """Where the agent calls tools: calls so far in the episode."""


class AgentEnv(gym.Env[Any, str], ABC):
    """Base class of all environments. A subclass writes four hooks and :meth:`canonical_state`.

    The base class owns seeding, the choice of task, the turn limit, state keys, info and snapshots. It knows
    nothing of tokens, prompts or memory.

    Attributes a hook may set: ``task`` (the instruction), ``success``, ``score``, ``refusal`` (why an action was
    refused). The base clears them at every reset, and ``refusal`` at every step.

    Args:
        max_turns: Turns after which an unfinished episode is truncated.
        split: Split that tasks are drawn from unless ``reset`` is told another.
        state_key: ``"canonical"``, ``"observation"`` or a name given to :func:`agent_envs.register_state_key`.
        render_mode: One of ``metadata["render_modes"]`` or None.

    Raises:
        ValueError: For a value outside these; the text names the value and what is allowed.
    """

    metadata: dict[str, Any] = {"render_modes": []}
    STATE_VERSION: ClassVar[int] = 0
    """Raised whenever ``canonical_state`` changes meaning; part of every key."""
    SPLITS: ClassVar[dict[str, int | str]] = {}
    """Split name to number of tasks, or alias to split name. ``train`` and ``test`` always exist."""
    SUPPORTS_SNAPSHOT: ClassVar[bool] = False
    """Whether :meth:`snapshot` and :meth:`restore` work."""
    no_threads: str = ""
    """Why several instances must not run in threads of one process, empty if they may."""

    def __init__(
        self,
        *,
        max_turns: int,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1:
            raise ValueError(f"max_turns must be an int >= 1, got {max_turns!r}.")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            known = ", ".join(self.metadata["render_modes"]) or "none"
            raise ValueError(f"Unknown render_mode {render_mode!r} for {type(self).__name__}. Known: {known}.")
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.state_key_name = state_key
        self._key_fn = get_state_key(state_key)
        self.split = resolve_split(self.splits(), split, type(self).__name__)
        self.task = ""
        self.success = False
        self.score = 0.0
        self.refusal = ""
        self._task_split, self._task_index, self._task_id = "", -1, ""
        self._turn = 0
        self._terminated = self._truncated = False

    # ------------------------------------------------------------------ hooks of a subclass

    @abstractmethod
    def _reset_task(self, split: str, index: int) -> None:
        """Load task ``index`` of ``split`` and put the game at its start."""

    @abstractmethod
    def _act(self, action: str) -> tuple[float, bool, bool]:
        """Apply one text action; return ``(reward, terminated, action_is_valid)``.

        A refused action must leave the canonical state as it was and set ``self.refusal``.
        """

    @abstractmethod
    def _observe(self) -> Any:
        """Return what the environment says now: a new object on every call."""

    @abstractmethod
    def canonical_state(self) -> Any:
        """Return a JSON value of everything the future depends on, and nothing else.

        No history, turn count, clock, generator state or feedback text; sets as sorted lists.
        """

    @abstractmethod
    def example_actions(self) -> list[str]:
        """Return a short winning walk from the current state."""

    def _extra_info(self) -> dict[str, Any]:
        """Return the environment's own info keys; the same keys and types in every call."""
        return {}

    def _save_state(self) -> Any:
        """Return the game's state as a JSON value, enough for :meth:`_load_state`. Part of snapshots."""
        raise SnapshotError(f"{type(self).__name__} has no snapshots (SUPPORTS_SNAPSHOT is False).")

    def _load_state(self, state: Any) -> None:
        """Put the game, whose task was just reset, into a state that :meth:`_save_state` returned."""
        raise SnapshotError(f"{type(self).__name__} has no snapshots (SUPPORTS_SNAPSHOT is False).")

    # ------------------------------------------------------------------ tasks

    @classmethod
    def unavailable(cls) -> str | None:
        """Return why the environment cannot be played with its default arguments here, with the command that helps.

        None if it can. Override where an installation of its own is needed: the conformance kit skips the environment
        by name then, and ``doctor`` and ``list`` say so.
        """
        return None

    @classmethod
    def group_defaults(cls, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``executor`` and time limits of groups that are made without naming them.

        Override where they depend on the arguments of the environment; otherwise name the executor at registration.

        Args:
            kwargs: Keyword arguments of the environment.
        """
        return {"executor": "serial"}

    @property
    def task_index(self) -> int:
        """Index of the current task in its split, -1 before the first reset."""
        return self._task_index

    def splits(self) -> Mapping[str, int | str]:
        """Return the splits of this instance (see ``SPLITS``); override where they depend on data files."""
        return self.SPLITS

    def num_tasks(self, split: str | None = None) -> int:
        """Return the number of tasks of a split (default: the instance's own)."""
        name = resolve_split(self.splits(), self.split if split is None else split, type(self).__name__)
        size = self.splits()[name]
        assert isinstance(size, int)
        return size

    @classmethod
    def name(cls) -> str:
        """Return the first part of every ``task_id``: the class name in lower case without ``Env``."""
        return cls.__name__.removesuffix("Env").lower()

    def task_name(self, split: str, index: int) -> str:
        """Return the stable id of a task within its split; override where the index is not one."""
        return str(index)

    def task_source(self, split: str) -> Any:
        """Return a JSON value that determines the split's tasks; it is hashed into :meth:`fingerprint`."""
        return {"name": self.name(), "split": split, "size": self.num_tasks(split), "version": self.STATE_VERSION}

    def fingerprint(self, split: str | None = None) -> str:
        """Return the 16-digit digest of a split's task data; panels record it."""
        name = resolve_split(self.splits(), self.split if split is None else split, type(self).__name__)
        return fingerprint_of(self.task_source(name))

    def _choose_task(self, options: Mapping[str, Any] | None) -> tuple[str, int]:
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options must be a dict such as {{'task_index': 0}} or None, got {options!r}.")
        options = options or {}
        for key in options:
            if key not in _OPTIONS:
                raise ValueError(
                    f"Unknown reset option {key!r}.{did_you_mean(key, _OPTIONS)} Known: {', '.join(_OPTIONS)}."
                )
        name = type(self).__name__
        split = resolve_split(self.splits(), options.get("split", self.split), name)
        total = self.num_tasks(split)
        index = options.get("task_index")
        if index is None:
            return split, int(self.np_random.integers(total))
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise TypeError(f"task_index must be an int, got {index!r}.")
        check_indices([int(index)], total, f"{name} split {split!r}")
        return split, int(index)

    # ------------------------------------------------------------------ Gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds ``self.np_random``; without ``task_index`` it also decides the task.
            options: ``{"task_index": i}`` names a task, ``{"split": s}`` another split.

        Returns:
            The first observation and the info of :class:`StepInfo`.
        """
        super().reset(seed=seed)
        split, index = self._choose_task(options)
        self._begin(split, index)
        return self._observe(), self._info()

    def _begin(self, split: str, index: int) -> None:
        self.task, self.success, self.score, self.refusal = "", False, 0.0, ""
        self._turn, self._terminated, self._truncated = 0, False, False
        self._task_split, self._task_index = split, index
        self._task_id = f"{self.name()}/{split}/{self.task_name(split, index)}"
        try:
            self._reset_task(split, index)
        except BaseException:
            self._task_id = ""  # half a task is loaded: a step must ask for a reset
            raise

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one turn; a refused action uses one too.

        A step of a finished episode changes nothing: reward 0, the same flags and state.

        Raises:
            TypeError: If ``action`` is not a string.
            gymnasium.error.ResetNeeded: Before the first ``reset``.
        """
        if not isinstance(action, str):
            raise TypeError(
                f"An action of {type(self).__name__} must be a str, got {type(action).__name__}: {action!r}."
            )
        if not self._task_id:
            raise ResetNeeded("Call reset() before step().")
        self.refusal = ""
        if self._terminated or self._truncated:
            self.refusal = "episode_over"
            info = self._info(action_is_valid=False)
            return self._observe(), 0.0, self._terminated, self._truncated, info
        reward, terminated, valid = self._act(action)
        self._turn += 1
        self._terminated = bool(terminated)
        self._truncated = not self._terminated and (self._truncated or self._turn >= self.max_turns)
        info = self._info(action_is_valid=bool(valid))
        return self._observe(), float(reward), self._terminated, self._truncated, info

    def truncate(self) -> None:
        """For hooks: end the episode by a rule of the game that is a limit, not an outcome.

        An outcome in the same turn counts for more: the episode is then terminated, not truncated.
        """
        self._truncated = True

    def state_key(self) -> str:
        """Return the 32-digit key of the current state.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset``.
        """
        if not self._task_id:
            raise ResetNeeded("Call reset() before asking for a state key.")
        return state_digest(type(self).__name__, self.STATE_VERSION, self._task_id, self._key_fn(self))

    def _info(self, *, action_is_valid: bool | None = None) -> dict[str, Any]:
        info: dict[str, Any] = {
            "state_key": self.state_key(),
            "task_id": self._task_id,
            "task": self.task,
            "turn": self._turn,
            "success": self.success,
            "score": float(self.score),
            "infra_error": "",
        }
        if action_is_valid is not None:
            info["action_is_valid"] = action_is_valid
            info["refusal"] = self.refusal
        info.update(self._extra_info())
        return info

    # ------------------------------------------------------------------ snapshots

    def snapshot(self) -> bytes:
        """Return task, state, turn, flags and generator as versioned JSON bytes.

        After ``restore`` in this process or another, the next reset and every later step are as if nothing had
        happened.

        Raises:
            SnapshotError: If the environment has none (``SUPPORTS_SNAPSHOT``) or no episode was started.
        """
        if not self._task_id:
            raise SnapshotError("Nothing to save: call reset() before snapshot().")
        data = {
            "format": SNAPSHOT_FORMAT,
            "env": type(self).__name__,
            "state_version": self.STATE_VERSION,
            "fingerprint": self.fingerprint(self._task_split),
            "split": self._task_split,
            "index": self._task_index,
            "turn": self._turn,
            "terminated": self._terminated,
            "truncated": self._truncated,
            "success": self.success,
            "score": float(self.score),
            "refusal": self.refusal,
            "rng": self.np_random.bit_generator.state,
            "rng_seed": self._np_random_seed,
            "state": self._save_state(),
        }
        return json.dumps(data, separators=(",", ":")).encode()

    def restore(self, snapshot: bytes) -> tuple[Any, dict[str, Any]]:
        """Continue from a snapshot; return the observation and info as ``reset`` does.

        Behind ``gym.make`` call ``env.reset()`` once, as Gymnasium's wrappers want, then
        ``env.get_wrapper_attr("restore")(snapshot)``, and likewise for ``snapshot``: that is the memory's method where
        the environment has a memory, so that history and state stay together.

        Raises:
            SnapshotError: If the bytes are damaged, of another version, environment or task data. The episode
                that was running then goes on unchanged.
        """
        data = self._parse_snapshot(snapshot)
        before = self.snapshot() if self._task_id else None
        try:
            self._apply_snapshot(data)
        except Exception as error:
            if before is not None:
                self._apply_snapshot(json.loads(before))
            else:
                self._task_id = ""  # no episode was running
            raise SnapshotError(f"Snapshot of {data['env']} cannot be restored: {error!r}.") from error
        return self._observe(), self._info()

    def _parse_snapshot(self, snapshot: bytes) -> dict[str, Any]:
        data = read_snapshot(snapshot)
        mine = (type(self).__name__, self.STATE_VERSION)
        theirs = (data["env"], data.get("state_version"))
        if mine != theirs:
            raise SnapshotError(
                f"Snapshot is of {theirs[0]} state version {theirs[1]}, this is {mine[0]} version {mine[1]}."
            )
        split = str(data.get("split"))
        if split not in self.splits() or self.fingerprint(split) != data.get("fingerprint"):
            raise SnapshotError(
                f"Snapshot was made with other tasks ({split!r}, {data.get('fingerprint')}); "
                "make the environment with the same keyword arguments and data."
            )
        check_fields(data)
        return data

    def _apply_snapshot(self, data: Mapping[str, Any]) -> None:
        check_indices([data["index"]], self.num_tasks(data["split"]), f"split {data['split']!r}")
        generator = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = data["rng"]
        self._begin(data["split"], data["index"])
        self._load_state(data["state"])
        self._np_random, self._np_random_seed = generator, data["rng_seed"]
        self._turn, self.refusal = data["turn"], data["refusal"]
        self._terminated, self._truncated = data["terminated"], data["truncated"]
        self.success, self.score = data["success"], data["score"]
