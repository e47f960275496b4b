"""The folder that everything made once and kept between runs lies in."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the package's folder below the user's cache folder, which ``XDG_CACHE_HOME`` may name."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "agent_envs"
