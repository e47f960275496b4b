"""Where AppWorld's interpreter and task data are, and what to do when they are not there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from gymnasium.error import DependencyNotInstalled

from agent_envs.cache import cache_folder
from agent_envs.envs.appworld.server.mini_build import VERSION as MINI_VERSION

APPWORLD_VERSION = "0.1.3.post1"
PYTHON_VARIABLE = "AGENT_ENVS_APPWORLD_PYTHON"
ROOT_VARIABLE = "APPWORLD_ROOT"
DATA_NAMES = ("mini", "official")
_INSTALL = "agent-envs appworld install"


@dataclass(frozen=True, kw_only=True, slots=True)
class Install:
    """The folders of an installation made by ``agent-envs appworld install``."""

    folder: Path

    @property
    def venv(self) -> Path:
        """Virtual environment of its own: AppWorld needs pydantic < 2."""
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.venv / "bin" / "python"

    @property
    def marker(self) -> Path:
        """File that is written when the virtual environment is complete."""
        return self.folder / "installed.json"

    @property
    def mini(self) -> Path:
        """AppWorld root of the mini world."""
        return self.folder / f"mini-{MINI_VERSION}"

    @property
    def official(self) -> Path:
        """AppWorld root of the official data."""
        return self.folder / "official"

    def is_complete(self) -> bool:
        """Return whether the interpreter has AppWorld of the right version, unpacked."""
        try:
            return bool(json.loads(self.marker.read_text())["appworld"] == APPWORLD_VERSION) and self.python.exists()
        except (OSError, ValueError, KeyError):
            return False


def default_install() -> Install:
    """Return the installation below the user's cache folder, which ``XDG_CACHE_HOME`` may name."""
    return Install(folder=cache_folder() / "appworld")


def find_python(python: str | None = None) -> str:
    """Return the interpreter that has AppWorld: the argument, the environment variable, or the installed one.

    Raises:
        DependencyNotInstalled: There is none; the text names the command that installs it.
    """
    named = python or os.environ.get(PYTHON_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.exists():
            where = "appworld_python" if python else f"${PYTHON_VARIABLE}"
            raise DependencyNotInstalled(f"No interpreter at {path}, which {where} names. Run: {_INSTALL}")
        return str(path.absolute())
    install = default_install()
    if not install.is_complete():
        raise DependencyNotInstalled(
            f"AppWorld is not installed (looked for {install.python}). Run: {_INSTALL} (3 minutes, 250 MB; it gets a "
            f"virtual environment of its own), or let ${PYTHON_VARIABLE} name an interpreter that has it."
        )
    return str(install.python)


def find_data(data: str) -> Path:
    """Return AppWorld's data folder, the one that holds ``datasets`` and ``tasks``.

    Args:
        data: ``"mini"``, ``"official"``, or a folder: AppWorld's root or the data folder in it.

    Raises:
        DependencyNotInstalled: It is not there; the text names the command that makes it.
    """
    if data == "mini":
        root, command = default_install().mini, _INSTALL
    elif data == "official":
        named = os.environ.get(ROOT_VARIABLE)
        root = Path(named).expanduser() if named else default_install().official
        command = f"{_INSTALL} --official (20 MB from the authors' storage), or let ${ROOT_VARIABLE} name the folder"
    else:
        root, command = Path(data).expanduser(), f"{_INSTALL} --official"
    for folder in (root / "data", root):
        if (folder / "datasets").is_dir() and (folder / "tasks").is_dir():
            return folder.absolute()
    raise DependencyNotInstalled(f"No AppWorld data at {root} (no data/datasets and data/tasks). Run: {command}")


def problem_of_default() -> str | None:
    """Return why the default environment cannot be made here, or None if it can."""
    try:
        find_python()
        find_data("mini")
    except DependencyNotInstalled as error:
        return str(error)
    return None
