"""What a batch checks: arguments before anything moves, and outages before a run is wasted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agent_envs.errors import ServiceDownError, did_you_mean
from agent_envs.executors import Description
from agent_envs.tasks import check_indices, resolve_split

IDLE = -1
"""Task index of a group that plays no episode: the padding of a panel's last batch."""
BATCHES_UNTIL_DOWN = 3
_OPTIONS = ("split", "task_index")


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_actions(actions: Sequence[str], rows: Sequence[int] | None, num_envs: int) -> Sequence[int]:
    """Return the row of each action.

    Raises:
        ValueError: If the number of actions is wrong, or a row is out of range or named twice.
        TypeError: If an action is not a str or a row not an int; the text names the row.
    """
    # A set or a generator would pair actions with rows in an order that nobody chose.
    if isinstance(actions, str) or not isinstance(actions, (Sequence, np.ndarray)):
        kind = type(actions).__name__
        raise TypeError(f"actions must be a sequence of str, one per row, got the {kind} {actions!r}.")
    if rows is not None and not isinstance(rows, (Sequence, np.ndarray)):
        raise TypeError(f"rows must be a sequence of row numbers or None, got {rows!r}.")
    expected = num_envs if rows is None else len(rows)
    if len(actions) != expected:
        which = "" if rows is None else ", one per entry of rows"
        raise ValueError(f"Expected {expected} actions{which}, got {len(actions)}.")
    numbers: Sequence[int] = range(num_envs) if rows is None else _check_rows(rows, num_envs)
    for row, action in zip(numbers, actions, strict=True):
        if not isinstance(action, str):
            raise TypeError(f"The action of row {row} must be a str, got {type(action).__name__}: {action!r}.")
    return numbers


def _check_rows(rows: Sequence[int], num_envs: int) -> list[int]:
    seen: set[int] = set()
    for row in rows:
        if not _is_int(row):
            raise TypeError(f"rows must hold row numbers, got {row!r}. For a mask pass np.flatnonzero(mask).")
        if not 0 <= row < num_envs:
            raise ValueError(f"rows must be in [0, {num_envs}), got {row}.")
        if row in seen:
            raise ValueError(f"rows must be different, got {row} twice.")
        seen.add(row)
    return [int(row) for row in rows]


def one_per_group(values: Any, num_groups: int, name: str) -> list[int]:
    """Return the ints of a sequence that holds one per group.

    Raises:
        TypeError: If it is no sequence of ints.
        ValueError: If its length is not the number of groups.
    """
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or np.ndim(values) == 0:
        raise TypeError(f"{name} must be an int or one int per group, got {values!r}.")
    for value in values:
        if not _is_int(value):
            raise TypeError(f"{name} must be an int or one int per group, got {value!r} in it.")
    if len(values) != num_groups:
        raise ValueError(f"{name} must be an int or one int per group: expected {num_groups}, got {len(values)}.")
    return [int(value) for value in values]


def check_seeds(seeds: list[int]) -> list[int]:
    """Return the seeds; raise ValueError for a negative one."""
    for seed in seeds:
        if seed < 0:
            raise ValueError(f"seed must be >= 0, got {seed}.")
    return seeds


def choose_tasks(
    options: Mapping[str, Any] | None, described: Description, name: str, num_groups: int
) -> tuple[str, list[int | None]]:
    """Return the split and the task index of each group; None lets the seed decide.

    Raises:
        ValueError: For an unknown option or split, or an index out of range.
        TypeError: For an index that is not an int.
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict such as {{'task_index': 0}} or None, got {options!r}.")
    options = options or {}
    for key in options:
        if key not in _OPTIONS:
            raise ValueError(
                f"Unknown reset option {key!r}.{did_you_mean(key, _OPTIONS)} Known: {', '.join(_OPTIONS)}."
            )
    split = resolve_split(described.splits, options.get("split", described.split), name)
    index = options.get("task_index")
    if index is None:
        return split, [None] * num_groups
    tasks = [int(index)] * num_groups if _is_int(index) else one_per_group(index, num_groups, "task_index")
    total = described.splits[split]
    assert isinstance(total, int)
    check_indices([task for task in tasks if task != IDLE], total, f"{name} split {split!r}")
    return split, list(tasks)


class Outage:
    """Counts batches in which most rows failed; what always fails must stop the run."""

    def __init__(self) -> None:
        self._streak = self._errors = self._rows = 0
        self._first = ""

    def begin(self, num_rows: int) -> None:
        """Start a batch of ``num_rows`` episodes."""
        bad = 2 * self._errors > self._rows
        self._streak = self._streak + 1 if bad else 0
        self._first = self._first if bad else ""
        self._errors, self._rows = 0, num_rows

    def add(self, text: str, trace: str) -> None:
        """Count a failed row."""
        self._errors += 1
        self._first = self._first or f"{text}\n{trace}".rstrip()

    def check(self) -> None:
        """Raise ServiceDownError once most rows of three successive batches have failed."""
        if 2 * self._errors > self._rows and self._streak + 1 >= BATCHES_UNTIL_DOWN:
            first, rows = self._first, self._rows
            self._streak, self._errors, self._first = 0, 0, ""  # a caller that repairs the service may go on
            raise ServiceDownError(
                f"More than half of the {rows} rows ended in an infrastructure error in each of "
                f"{BATCHES_UNTIL_DOWN} successive batches. Repair the environment or its service, then reset. "
                f"First error: {first}"
            )
