"""Records that cross from rollouts into trainers and files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA_VERSION = 1
"""Version of :class:`Turn` in files; raised when a field changes meaning."""


class Status(StrEnum):
    """How a rollout stands after a turn."""

    RUNNING = "running"
    COMPLETED = "completed"
    TRUNCATED_MAX_TURNS = "truncated_max_turns"
    TRUNCATED_LENGTH = "truncated_length"
    ERROR_TIMEOUT = "error_timeout"
    ERROR_ENV = "error_env"
    ERROR_SERVICE = "error_service"

    def is_truncated(self) -> bool:
        """Return whether a limit ended the rollout."""
        return self in (Status.TRUNCATED_MAX_TURNS, Status.TRUNCATED_LENGTH)

    def is_error(self) -> bool:
        """Return whether infrastructure, not the policy, ended the rollout: such rows carry no training weight."""
        return self in (Status.ERROR_TIMEOUT, Status.ERROR_ENV, Status.ERROR_SERVICE)

    def is_terminal(self) -> bool:
        """Return whether the rollout has ended."""
        return self is not Status.RUNNING


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One turn of one member: the row that advantage estimators read."""

    group: int
    """Group of the batch; decided by the sampler, never by text."""
    member: int
    """Member within the group, 0-based."""
    turn: int
    """Turn of the episode, 0-based."""
    task_id: str
    state_key: str
    """Key of the state the action was taken in."""
    next_state_key: str
    """Key of the state reached."""
    action: str
    """Action text that the environment received."""
    reward: float
    """Reward of the environment; no penalty of a trainer is in it."""
    terminated: bool
    truncated: bool
    success: bool
    action_is_valid: bool
    """The environment accepted the action."""
    format_ok: bool
    """The parser found a well-formed action."""
    status: Status
