"""Every error class of the package, and the texts that several modules share.

A message says what is wrong, which value, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from gymnasium.error import DependencyNotInstalled

__all__ = [
    "AgentEnvsError",
    "CheckpointError",
    "DependencyNotInstalled",
    "GroupMismatchError",
    "PanelMismatchError",
    "ServiceDownError",
    "SnapshotError",
    "did_you_mean",
    "missing_extra",
    "unknown_name",
]


class AgentEnvsError(Exception):
    """Base of the errors that are not a caller's wrong argument (those are ValueError and TypeError)."""


class GroupMismatchError(AgentEnvsError):
    """Members of one group start in different states, so their returns cannot be compared."""


class PanelMismatchError(AgentEnvsError, ValueError):
    """An evaluation panel was made for other task data than this installation has."""


class ServiceDownError(AgentEnvsError):
    """Most rows of several successive batches ended in an infrastructure error."""


class SnapshotError(AgentEnvsError, ValueError):
    """A snapshot is damaged, of another version, or of another environment."""


class CheckpointError(AgentEnvsError, ValueError):
    """A training checkpoint is damaged or belongs to another recipe."""


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known name, or an empty string."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def unknown_name(kind: str, name: Any, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is in no registry: the name, a suggestion, the known names."""
    names = sorted(known)
    return ValueError(f"Unknown {kind} {name!r}.{did_you_mean(name, names)} Known: {', '.join(names) or 'none'}.")


def missing_extra(package: str, extra: str) -> DependencyNotInstalled:
    """Return the error for an optional package that is absent: it names the extra to install."""
    return DependencyNotInstalled(f'{package} is not installed, run pip install "agent-envs[{extra}]"')
