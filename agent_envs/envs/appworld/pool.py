"""Launcher of worlds: one warm server process per configuration, which forks a sandboxed world on request."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agent_envs.envs.appworld.client import AppWorldClient, Evaluation, WorldError
from agent_envs.envs.appworld.server import sandbox, world_server

_SERVER = Path(world_server.__file__)
OFFICIAL_ENGINE = str(_SERVER.with_name("engine.py"))
_START_TIMEOUT_S = 900.0  # 10 s on an idle machine; a machine that is busy must not lose its workers
_ANSWER_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
# Kernels without one of these leave a world with more than its own folder.
_EXPECTED_LAYERS = ("limits", "landlock", "seccomp")


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolConfig:
    """What decides how worlds run; environments with equal configurations share a server."""

    python: str
    """AppWorld's interpreter."""
    data: str
    """AppWorld's data folder, with ``tasks``, ``datasets``, ``base_dbs`` and ``api_docs``."""
    warm_task: str
    """Id of a task that is loaded once, so that worlds start warm."""
    memory_mb: int = 2048
    """Address space that a world may take beyond the warm server's, in MiB."""
    call_timeout_s: float = 130.0
    """Seconds a call may take until the world is given up and killed."""
    confined: bool = True
    """Whether worlds run in the sandbox."""
    engine: str = OFFICIAL_ENGINE
    """File with the class ``Engine``."""


class World:
    """One sandboxed process for one task. Made by :meth:`WorldPool.start_world`, ended by :meth:`close`."""

    def __init__(self, pool: WorldPool, pid: int, client: AppWorldClient, folder: Path, task_id: str) -> None:
        self.pid, self.client, self.task_id = pid, client, task_id
        self._pool, self._folder = pool, folder
        self._open = True

    def evaluate(self) -> Evaluation:
        """Run the task's tests on the databases as they are, in a process that has run no agent code."""
        self.client.save()
        judge = self._pool.start_judge(self.task_id, self._folder.name)
        try:
            return judge.client.evaluate(task_id=self.task_id, world=self._folder.name)
        finally:
            judge.close()

    def close(self) -> int | None:
        """Kill the process and remove its folder; calling it again is harmless.

        Returns:
            The exit status: -9 if it was alive until now. None if it is not known.
        """
        if not self._open:
            return None
        self._open = False
        self.client.disconnect()
        status = self._pool._end_world(self.pid)
        shutil.rmtree(self._folder, ignore_errors=True)
        return status


class WorldPool:
    """Starts worlds as they are asked for; a new one for every episode, so that none inherits from another.

    The server process loads AppWorld and the databases once (seconds); a world is a fork of it (milliseconds), shares
    what it does not change, and dies with it. The server ends when this process ends, however that happens, because
    its standard input closes then. Threads may share a pool.

    Args:
        config: How worlds run.

    Raises:
        WorldError: The server does not start; the text holds the end of its log.
    """

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.layers: list[str] = []
        """Layers of the sandbox that are in force; known once a world was started."""
        self._lock = threading.RLock()
        self._asking = False
        self._doomed: list[int] = []
        self._count = 0
        self._token = secrets.token_hex(16)
        self._root = Path(tempfile.mkdtemp(prefix="agent_envs-appworld-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: _Lines | None = None
        self._log: IO[bytes] | None = None
        self.warm_up_s = 0.0
        """Seconds that the last start of the server took."""

    # ------------------------------------------------------------------ worlds

    def start_world(self, task_id: str) -> World:
        """Return a new world that can load one task; the server is started first if it does not run."""
        return self._start({"op": "spawn", "task": task_id})

    def start_judge(self, task_id: str, world: str) -> World:
        """Return a process that can read the task's tests and what the named world has saved."""
        return self._start({"op": "judge", "task": task_id, "world": world})

    def _start(self, command: Mapping[str, str]) -> World:
        with self._lock:
            self._ensure_server()
            self._count += 1
            name = f"w{self._count}"
            answer = self._ask({**command, "name": name})
            self._bury()
        client = AppWorldClient(
            f"http://127.0.0.1:{answer['port']}", token=self._token, timeout_s=self.config.call_timeout_s
        )
        world = World(self, int(answer["pid"]), client, self._outputs / name, command["task"])
        try:
            self._check_layers(client.sandbox_layers())
        except BaseException as error:
            world.close()
            if isinstance(error, WorldError):
                raise WorldError(f"A world did not come up: {error} {self._last_words()}") from error
            raise
        return world

    def _check_layers(self, layers: list[str]) -> None:
        if self.layers == layers:
            return
        self.layers = layers
        missing = [name for name in _EXPECTED_LAYERS if not any(layer.split()[0] == name for layer in layers)]
        if missing and self.config.confined:
            warnings.warn(
                f"This kernel lacks {', '.join(missing)}: code in AppWorld worlds is confined by "
                f"{', '.join(layers) or 'nothing'} only. Run in a container or on Linux >= 5.13.",
                UserWarning,
                stacklevel=4,
            )

    def _end_world(self, pid: int) -> int | None:
        with self._lock:
            self._doomed.append(pid)
            # The garbage collector may close a forgotten world at any time, also between a question and its answer.
            return None if self._asking else self._bury()

    def _bury(self) -> int | None:
        """Kill the worlds that were closed; return the exit status of the last."""
        status = None
        while self._doomed and self._process is not None:
            pid = self._doomed.pop()
            with contextlib.suppress(WorldError):  # the server is gone, and its worlds with it
                status = int(self._ask({"op": "kill", "pid": pid})["status"])
        self._doomed.clear()
        return status

    # ------------------------------------------------------------------ the server

    @property
    def _outputs(self) -> Path:
        return self._root / "experiments" / "outputs"

    def _ensure_server(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._stop_server()
        self._outputs.mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o711)  # worlds may run as another user
        link = self._root / "data"
        if not link.is_symlink():
            link.symlink_to(self.config.data)
        command = [self.config.python, "-I", str(_SERVER), json.dumps(self._server_config())]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes to it
        started = time.perf_counter()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment(),
                cwd=self._root,
                start_new_session=True,  # Ctrl-C is for the trainer
            )
        except OSError as error:
            raise WorldError(f"AppWorld's interpreter {self.config.python} cannot be run: {error}.") from error
        self._process = process
        assert process.stdout is not None
        self._answers = _Lines(process.stdout)
        self._read_answer(_START_TIMEOUT_S)
        self.warm_up_s = time.perf_counter() - started

    def _server_config(self) -> dict[str, Any]:
        config = self.config
        return {
            "engine": config.engine,
            "root": str(self._root),
            "outputs": str(self._outputs),
            "sandbox": sandbox.__file__ if config.confined else None,
            "data": str(Path(config.data).resolve()),
            "memory_mb": config.memory_mb,
            "warm_task": config.warm_task,
        }

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's environment but what finds libraries and sets the language: it may hold secrets."""
        kept = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
        home = str(self._root)
        own = {"HOME": home, "IPYTHONDIR": f"{home}/ipython", world_server.TOKEN_VARIABLE: self._token}
        return {**{name: os.environ[name] for name in kept if name in os.environ}, **own}

    def _ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None
        self._asking = True
        try:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            process.stdin.flush()
            return self._read_answer(_ANSWER_TIMEOUT_S)
        except (OSError, ValueError) as error:
            raise WorldError(f"AppWorld's server has ended ({error}). {self._last_words()}") from error
        finally:
            self._asking = False

    def _read_answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._answers is not None
        line = self._answers.next(timeout_s)
        if line is None:
            words = self._last_words()
            self._stop_server()
            raise WorldError(f"AppWorld's server did not answer within {timeout_s:g} s. {words}")
        try:
            answer = json.loads(line)
        except ValueError:
            words = self._last_words()
            self._stop_server()
            hint = "install" if "No module named 'appworld'" in words else "doctor"
            raise WorldError(f"AppWorld's server has ended. {words} Run: agent-envs appworld {hint}") from None
        if "error" in answer:
            raise WorldError(f"AppWorld's server cannot start a world: {answer['error']}.")
        assert isinstance(answer, dict)
        return answer

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        return f"End of its log: {self._log.read().decode('utf-8', 'replace').strip()[-600:] or 'empty'}"

    def _stop_server(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # it kills its worlds and leaves
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()  # the kernel kills its worlds
            process.wait()
        process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def close(self) -> None:
        """End all worlds and the server and remove their files; a later ``start_world`` begins anew."""
        with self._lock:
            self._stop_server()
            self._doomed.clear()
            shutil.rmtree(self._root, ignore_errors=True)


class _Lines:
    """Lines of a pipe, with a time limit."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._handle, self._pending = pipe.fileno(), b""

    def next(self, timeout_s: float) -> bytes | None:
        """Return the next line, what is left at the end of the stream (perhaps nothing), or None if none came."""
        deadline_s = time.perf_counter() + timeout_s
        while b"\n" not in self._pending:
            ready = select.select([self._handle], [], [], max(0.0, deadline_s - time.perf_counter()))[0]
            if not ready:
                return None
            block = os.read(self._handle, 65536)
            if not block:
                break
            self._pending += block
        line, _, self._pending = self._pending.partition(b"\n")
        return line


# ---------------------------------------------------------------------- one pool per configuration

_pools: dict[PoolConfig, WorldPool] = {}
_pools_lock = threading.Lock()


def borrow_pool(config: PoolConfig) -> WorldPool:
    """Return this process's pool for a configuration. It stays warm until :func:`close_pools` or the end."""
    with _pools_lock:
        if config not in _pools:
            _pools[config] = WorldPool(config)
        return _pools[config]


@atexit.register
def close_pools() -> None:
    """End all servers of this process with their worlds; environments start new ones at their next reset."""
    with _pools_lock:
        for pool in _pools.values():
            pool.close()
        _pools.clear()
