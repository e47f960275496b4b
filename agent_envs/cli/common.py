"""What several sub-commands share: environment ids and ``key=value`` arguments."""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agent_envs.registration import NAMESPACE, registered_ids


def resolve_id(name: str) -> str:
    """Return the full id: ``Sokoban``, ``Sokoban-v0`` and ``agent_envs/Sokoban-v0`` are the same.

    ``module:my_lab/Maze-v0`` imports the module first, which registers the id.

    Raises:
        ValueError: If no such id is registered; the text suggests the closest.
    """
    module, colon, name = name.rpartition(":")
    if colon:
        import_module(module)
    known = registered_ids()
    for candidate in (name, f"{NAMESPACE}/{name}", f"{NAMESPACE}/{name}-v0"):
        if candidate in known:
            return candidate
    if name in gym.registry:
        raise ValueError(f"{name} is not an environment of agent_envs. Known: {', '.join(known)}.")
    short = {env_id.rpartition("/")[2].lower(): env_id for env_id in known}
    wanted = name.rpartition("/")[2].lower()
    if wanted in short or f"{wanted}-v0" in short:
        return short.get(wanted) or short[f"{wanted}-v0"]
    # Compared without the namespace, which would drown what is misspelt.
    by_name = short | {key.rpartition("-v")[0]: env_id for key, env_id in short.items()}
    close = difflib.get_close_matches(wanted, by_name, n=1)
    hint = f" Did you mean '{by_name[close[0]]}'?" if close else ""
    if "/" in name and name.partition("/")[0] not in {env_id.partition("/")[0] for env_id in known}:
        hint = f" Name the module that registers it, too: my_module:{name}."
    raise ValueError(f"Unknown environment {name!r}.{hint} Known: {', '.join(known)}.")


def import_module(name: str) -> None:
    """Import a user's module, which registers ids.

    Raises:
        ValueError: If there is no such module.
    """
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"Cannot import {name}: {error}. Run where the module can be imported.") from None


def parse_value(text: str) -> Any:
    """Return the JSON value that ``text`` spells, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def parse_kwargs(pairs: Sequence[str]) -> dict[str, Any]:
    """Return keyword arguments from ``key=value`` words.

    Raises:
        ValueError: If a word has no ``=``.
    """
    kwargs: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"Expected key=value, got {pair!r}. Example: num_boxes=2")
        kwargs[key] = parse_value(value)
    return kwargs
