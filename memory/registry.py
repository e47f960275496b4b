"""Memories by name: shipped, registered, installed as plug-ins, or given as a dotted path."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from agent_envs.errors import unknown_name
from agent_envs.memory.base import Memory

ENTRY_POINT_GROUP = "agent_envs.memory"

_REGISTRY: dict[str, str] = {
    "household": "agent_envs.memory.household:HouseholdMemory",
    "none": "agent_envs.memory.window:NoMemory",
    "summary": "agent_envs.memory.summary:SummaryMemory",
    "window": "agent_envs.memory.window:WindowMemory",
}


def register_memory(name: str, path: str) -> None:
    """Give a memory class a name, for ``gym.make(id, memory=name)``.

    The class is named by its path, not passed, so that the name means the same in spawned workers. Register it in a
    module that the workers import too, or use the path itself or an entry point of the group ``agent_envs.memory``.

    Args:
        name: The new name.
        path: ``"module:Class"``; it is imported on first use.

    Raises:
        ValueError: If the name is taken by another class, or the path has another form.
        TypeError: If an argument is no str.
    """
    if not isinstance(name, str) or not isinstance(path, str):
        raise TypeError(f"register_memory takes a name and a path 'module:Class', got {name!r} and {path!r}.")
    if not name or ":" in name:
        raise ValueError(f"A memory's name must not be empty or hold ':', got {name!r}.")
    if not all(path.partition(":")):
        raise ValueError(f"The path of a memory must be 'module:Class', got {path!r}.")
    if _REGISTRY.setdefault(name, path) != path:
        raise ValueError(f"Memory {name!r} is registered already as {_REGISTRY[name]}, choose another name.")


def memory_names() -> list[str]:
    """Return the names of all registered and installed memories, sorted."""
    return sorted({*_REGISTRY, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def memory_path(name: str) -> str:
    """Return the ``"module:Class"`` that a name stands for.

    Raises:
        ValueError: If the name is unknown; the text names the closest one and all known ones.
        TypeError: If it is no str.
    """
    if not isinstance(name, str):
        raise TypeError(f"memory must be a name or a path 'module:Class', got {name!r}.")
    if name in _REGISTRY:
        return _REGISTRY[name]
    if ":" in name:
        return name
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == name:
            return point.value
    raise unknown_name("memory", name, memory_names())


def make_memory(name: str, **kwargs: Any) -> Memory:
    """Return a new memory for one member.

    Args:
        name: A registered name, an entry point's name, or the path ``"module:Class"``.
        **kwargs: Keyword arguments of the class.

    Raises:
        ValueError: If the name is unknown or the path leads nowhere.
        TypeError: If the class is no :class:`Memory` or does not take the arguments.
    """
    path = memory_path(name)
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and not _is_part(error.name, module):
            raise  # the module exists, something it imports does not
        raise ValueError(f"Memory {name!r}: there is no {path!r} ({error}). Give 'module:Class'.") from None
    if not isinstance(found, type) or not issubclass(found, Memory):
        raise TypeError(f"Memory {name!r}: {path!r} is not a subclass of agent_envs.memory.Memory.")
    return found(**kwargs)


def _is_part(missing: str | None, module: str) -> bool:
    return missing is not None and (module == missing or module.startswith(f"{missing}."))
