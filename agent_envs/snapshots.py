"""The bytes of a snapshot: JSON with a version, read with suspicion, for they come from files and other processes."""

from __future__ import annotations

import json
import math
from typing import Any

from agent_envs.errors import SnapshotError

SNAPSHOT_FORMAT = 1
_FIELDS: dict[str, type] = {"index": int, "turn": int, "score": float, "refusal": str}
_FIELDS |= dict.fromkeys(("terminated", "truncated", "success"), bool)


def read_snapshot(snapshot: bytes) -> dict[str, Any]:
    """Return the content of a snapshot, of any environment.

    Raises:
        SnapshotError: If the bytes are no snapshot, or one of another format.
    """
    try:
        data = json.loads(snapshot)
        if not isinstance(data, dict) or "format" not in data or "env" not in data:
            raise ValueError("not an object with 'format' and 'env'")
    except (ValueError, TypeError, RecursionError) as error:
        raise SnapshotError(f"Not a snapshot of an agent_envs environment: {error}.") from None
    if data["format"] != SNAPSHOT_FORMAT:
        raise SnapshotError(f"Snapshot format {data['format']!r} is not {SNAPSHOT_FORMAT}, the one this version reads.")
    return data


def check_fields(data: dict[str, Any]) -> None:
    """Refuse values that no environment writes, such as a negative turn; the game's own state is not looked at.

    Raises:
        SnapshotError: For the first such value; the text names it.
    """
    for name, kind in _FIELDS.items():
        value: Any = data.get(name)
        damaged = type(value) is not kind
        if isinstance(value, (int, float)) and not damaged:
            damaged = value < 0 if kind is int else not math.isfinite(value)
        if damaged:
            raise SnapshotError(f"Snapshot of {data['env']} cannot be restored: its {name!r} is {value!r}.")
