"""Setting AppWorld up in a virtual environment of its own, and building the mini world in it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_envs.envs.appworld.paths import APPWORLD_VERSION, Install
from agent_envs.envs.appworld.server import mini_build
from agent_envs.errors import AgentEnvsError
from agent_envs.tasks import write_atomically

REQUIREMENTS = (f"appworld=={APPWORLD_VERSION}", "pydantic>=1.9,<2")


class InstallError(AgentEnvsError):
    """A step of the installation failed; the text holds the end of its output."""


def install(target: Install, *, python: str = sys.executable, force: bool = False) -> None:
    """Install AppWorld and build the mini world; parts that are complete are kept.

    Another process that installs into the same folder is waited for.

    Args:
        target: Where to.
        python: Interpreter, Python 3.11 or newer, that the virtual environment is made with.
        force: Start over.

    Raises:
        InstallError: A step failed.
    """
    with _only_one(target.folder):
        if force:
            for folder in (target.venv, target.mini):
                shutil.rmtree(folder, ignore_errors=True)
            target.marker.unlink(missing_ok=True)
        if not target.is_complete():
            _install_package(target, python)
        if not (target.mini / "data" / "version.json").exists():
            _build_mini(target)


def _install_package(target: Install, python: str) -> None:
    shutil.rmtree(target.venv, ignore_errors=True)  # half of an earlier try
    # Without the caller's variables for the interpreter: a virtual environment that is active must not leak in.
    _run("make a virtual environment", [python, "-m", "venv", str(target.venv)], target)
    pip = [str(target.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    _run(f"install {REQUIREMENTS[0]} with pip (231 MB)", pip, target)
    _run("unpack the apps", [str(target.venv / "bin" / "appworld"), "install"], target)
    write_atomically(target.marker, json.dumps({"appworld": APPWORLD_VERSION, "python": python}) + "\n")


def _build_mini(target: Install) -> None:
    part = target.folder / f".mini.{os.getpid()}"
    try:
        _run("build the mini world", [str(target.python), "-I", mini_build.__file__, str(part)], target)
        shutil.rmtree(target.mini, ignore_errors=True)
        part.rename(target.mini)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def download_official(target: Install) -> Path:
    """Let AppWorld fetch its official data; return the folder.

    Raises:
        InstallError: The data did not arrive.
    """
    target.official.mkdir(parents=True, exist_ok=True)
    command = [str(target.venv / "bin" / "appworld"), "download", "data"]
    with _only_one(target.folder):
        output = _run("download the official data", command, target, root=target.official)
    if not (target.official / "data" / "datasets").is_dir():
        raise InstallError(
            f"AppWorld's download left no data in {target.official}: {output.strip()[-400:]}. Check the network and "
            f"run the command again, or copy the folder 'data' of another machine there."
        )
    return target.official / "data"


def _run(what: str, command: Sequence[str], target: Install, *, root: Path | None = None) -> str:
    print(f"{what} ...", end=" ", flush=True)
    started = time.monotonic()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    home = target.folder / "home"  # AppWorld unpacks its own tests below it
    home.mkdir(parents=True, exist_ok=True)
    # pip keeps the caller's home: its cache and settings are there.
    own = {} if "pip" in command else {"HOME": str(home)}
    environment = {**kept, **own, "APPWORLD_CACHE": str(home), "APPWORLD_ROOT": str(root or home)}
    done = subprocess.run(
        command, env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    print(f"{'done' if done.returncode == 0 else 'failed'} after {time.monotonic() - started:.0f} s", flush=True)
    output = done.stdout + done.stderr
    if done.returncode != 0:
        raise InstallError(f"Cannot {what}: {' '.join(command)} ended with {done.returncode}: {output.strip()[-800:]}")
    return output


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
