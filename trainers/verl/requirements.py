"""What has to be installed for the verl backend, checked before anything starts."""

from __future__ import annotations

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agent_envs.errors import DependencyNotInstalled, missing_extra

LOWEST, HIGHEST = (0, 9), (0, 10)
"""verl versions that the hooks were written for: from LOWEST on, below HIGHEST."""
# verl itself requires none of these, but its default trainer imports them all.
_MODULES = {
    "transfer_queue": "TransferQueue",
    "zmq": "pyzmq",
    "msgspec": "msgspec",
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "cachetools": "cachetools",
    "torch": "torch",
}


def check_verl() -> None:
    """Check that a verl of a known version and what its trainer imports are installed.

    Raises:
        DependencyNotInstalled: If a package is missing; the text names it and the extra.
        ImportError: If verl has another version; the text names both.
    """
    try:
        found = version("verl")
    except PackageNotFoundError:
        raise missing_extra("verl", "verl") from None
    if not LOWEST <= _major_minor(found) < HIGHEST:
        raise ImportError(
            f"agent_envs.trainers.verl works with verl >= {LOWEST[0]}.{LOWEST[1]}, < {HIGHEST[0]}.{HIGHEST[1]}, "
            f'this is verl {found}; run pip install "agent-envs[verl]"'
        )
    origin = getattr(importlib.util.find_spec("verl"), "origin", None)
    if origin is not None and Path(origin).resolve().parent == Path(__file__).resolve().parent:
        raise ImportError(
            f"'import verl' finds {origin}, a part of agent_envs, because its parent folder is on sys.path. Start runs "
            "with python -m agent_envs.trainers.verl from another folder."
        )
    for module, package in _MODULES.items():
        if importlib.util.find_spec(module) is None:
            if module == "torch":
                raise DependencyNotInstalled("torch is not installed; install the build that suits your machine")
            raise missing_extra(package, "verl")


def _major_minor(text: str) -> tuple[int, int]:
    major, minor, *_ = (*text.split("."), "0")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)
