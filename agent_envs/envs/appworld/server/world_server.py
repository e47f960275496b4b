"""Server of AppWorld worlds: one warm process that forks a sandboxed process per world on request.

Run by AppWorld's interpreter as ``python -I world_server.py CONFIG`` with CONFIG in JSON. Commands come as JSON lines
on standard input, answers go as JSON lines to standard output. When standard input closes, all worlds are killed.

A world serves routes of AppWorld's own environment server on a loopback port: ``/initialize``, ``/execute``,
``/task_completed``, ``/save_state``, ``/close``; ``/execute`` and ``/initialize`` also tell the state's digests. It can
read its own task, but not the tests and answers: ``/evaluate`` is answered by another process, a judge, which runs no
agent code and reads the databases that the world has saved.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import select
import shutil
import signal
import socketserver
import sys
import time
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol, cast

TOKEN_VARIABLE = "AGENT_ENVS_WORLD_TOKEN"
_MAX_BODY_BYTES = 16 << 20
_PARENT_CHECK_S = 5.0
_FOREVER_S = 3600.0


class NoRouteError(Exception):
    """A request names a path that is not served."""


class Engine(Protocol):
    """What executes code: AppWorld, or the fake one of the tests."""

    def warm_up(self) -> None:
        """Do everything that worlds have in common, before they are forked."""

    def start(self, task_id: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Load a task; return ``instruction``, ``supervisor`` and ``datetime``."""

    def execute(self, code: str) -> str:
        """Run code; return what it printed or how it failed."""

    def completed(self) -> bool:
        """Return whether the task was declared complete."""

    def save(self) -> None:
        """Write the databases below the working folder."""

    def judge(self, task_id: str, world: str) -> dict[str, Any]:
        """Test what ``world`` has saved; return ``success``, ``num_tests``, ``passes``, ``failures``."""

    def digest(self) -> dict[str, str]:
        """Return ``db`` and ``namespace``."""

    def close(self) -> None:
        """End the task."""


def load_file(path: str) -> Any:
    """Return a Python file as a module; ``python -I`` keeps this folder off ``sys.path``."""
    name = f"agent_envs_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cut_middle(text: str, limit: int) -> str:
    """Return the text, or its first and last ``limit // 2`` characters around a line that says what is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"


# ---------------------------------------------------------------------- a world


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _World

    def do_GET(self) -> None:
        if self._admitted():
            self._send(200, {"message": "AppWorld world of agent_envs", "sandbox": self.server.layers})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= _MAX_BODY_BYTES:
            self.close_connection = True
            self._send(413, {"detail": f"The body has {length} bytes, at most {_MAX_BODY_BYTES} are read."})
            return
        raw = self.rfile.read(length)
        if not self._admitted():
            return
        try:
            status, answer = 200, self.server.answer(self.path, json.loads(raw or b"{}"))
        except NoRouteError as error:
            status, answer = 404, {"detail": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the answer
            traceback.print_exc()
            status, answer = 500, {"detail": f"{type(error).__name__}: {error}"}
        self._send(status, answer)

    def _admitted(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {self.server.token}":
            return True
        self._send(401, {"detail": "The bearer token is missing or wrong."})
        return False

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode("utf-8", "surrogatepass")
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: the trainer logs."""


class _World(socketserver.TCPServer):
    """One world behind one loopback socket; requests are served one after the other."""

    def __init__(self, engine: Engine, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.engine, self.token = engine, token
        self.layers: list[str] = []
        self._task_id = ""
        self._max_output_chars = 0

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        task_id = body.pop("task_id", None)
        if not isinstance(task_id, str):
            raise ValueError(f"task_id must be a string, got {task_id!r}.")
        if path == "/evaluate":
            return {"output": self.engine.judge(task_id, str(body["world"]))}
        if path == "/initialize":
            self._max_output_chars = int(body.pop("max_output_chars", 1 << 20))
            start = self.engine.start(task_id, body)
            self._task_id = task_id
            return {"output": {"task_id": task_id, **start}, "state": self.engine.digest()}
        if task_id != self._task_id:
            raise ValueError(f"The active task is {self._task_id or 'none'}, not {task_id}.")
        if path == "/execute":
            output = cut_middle(self.engine.execute(str(body["code"])), self._max_output_chars)
            return {"output": output, "completed": self.engine.completed(), "state": self.engine.digest()}
        if path == "/task_completed":
            return {"output": self.engine.completed()}
        if path == "/save_state":
            self.engine.save()
            return {"output": None}
        if path == "/close":
            self._task_id = ""
            self.engine.close()
            return {"output": None}
        raise NoRouteError(f"No route {path}.")


# ---------------------------------------------------------------------- the process that forks them


class Nursery:
    """Forks worlds from a process in which the engine is warm.

    Args:
        engine: Shared by all worlds until they are forked.
        config: ``sandbox`` (path of sandbox.py, or None for no confinement), ``outputs`` (folder that gets one folder
            per world), ``data`` (AppWorld's data folder), ``memory_mb``.
        token: What requests must bring.
    """

    def __init__(self, engine: Engine, config: dict[str, Any], token: str) -> None:
        self._engine, self._config, self._token = engine, config, token
        self._sandbox = load_file(config["sandbox"]) if config["sandbox"] else None
        self._living: set[int] = set()

    def spawn(self, *, name: str, task: str) -> dict[str, Any]:
        """Fork a world for one task; its folder is ``outputs/name``."""
        own = Path(self._config["data"], "tasks", task)
        return self._fork(name, [str(own / "specs.json"), str(own / "dbs")])

    def judge(self, *, name: str, task: str, world: str) -> dict[str, Any]:
        """Fork a judge of what a world has saved."""
        return self._fork(
            name, [str(Path(self._config["data"], "tasks", task)), str(Path(self._config["outputs"], world))]
        )

    def _fork(self, name: str, readable: list[str]) -> dict[str, Any]:
        data = Path(self._config["data"])
        # AppWorld quotes the source of every frame when something fails, so that of this program too.
        readable = [*readable, __file__, self._config["engine"]]
        readable += [str(data / shared) for shared in ("base_dbs", "api_docs", "datasets")]
        folder = Path(self._config["outputs"], name)
        folder.mkdir()
        world = _World(self._engine, self._token)  # listens already: a confined process may open no socket
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self._be_a_world(world, readable, str(folder), parent)
                status = 0
            except BaseException:  # noqa: BLE001 - nothing of the parent's code may run in the child
                traceback.print_exc()
            finally:
                os._exit(status)
        port = world.server_address[1]
        world.server_close()
        self._living.add(pid)
        return {"pid": pid, "port": port}

    def _be_a_world(self, world: _World, readable: list[str], folder: str, parent: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.environ.update(HOME=folder, TMPDIR=folder, IPYTHONDIR=f"{folder}/ipython")
        os.chdir(folder)
        if self._sandbox is not None:
            world.layers = self._sandbox.confine(
                readable=readable, writable=folder, memory_mb=self._config["memory_mb"]
            )
            self._sandbox.die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            return  # it ended before the kernel was told
        world.serve_forever(poll_interval=_FOREVER_S)

    def kill(self, *, pid: int) -> dict[str, Any]:
        """End a world; return how it had ended if it was dead already."""
        if pid not in self._living:
            raise ValueError(f"{pid} is no world of this server.")
        self._living.discard(pid)
        # A dead child keeps its number until it is waited for, so this cannot hit another process.
        os.kill(pid, signal.SIGKILL)
        return {"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def close(self) -> None:
        """End all worlds."""
        for pid in list(self._living):
            self.kill(pid=pid)


def _commands(parent: int) -> Any:
    """Yield commands until standard input closes or the parent is gone."""
    pending = b""
    while True:
        if not select.select([0], [], [], _PARENT_CHECK_S)[0]:
            if os.getppid() != parent:
                return
            continue
        block = os.read(0, 65536)
        if not block:
            return
        *lines, pending = (pending + block).split(b"\n")
        yield from (json.loads(line) for line in lines if line)


def main() -> None:
    """Warm up, then obey commands."""
    parent = os.getppid()
    config = json.loads(sys.argv[1])
    token = os.environ.pop(TOKEN_VARIABLE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's; it closes standard input
    # Whatever prints to standard output, in this process or a world, must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    started = time.perf_counter()
    engine = cast(Engine, load_file(config["engine"]).Engine(config))
    engine.warm_up()
    gc.collect()
    gc.freeze()  # what is warm now stays shared with the worlds
    nursery = Nursery(engine, config, token)
    print(json.dumps({"ready": True, "warm_up_s": round(time.perf_counter() - started, 3)}), file=answers)
    try:
        for command in _commands(parent):
            try:
                orders: dict[str, Callable[..., dict[str, Any]]] = {
                    "spawn": nursery.spawn,
                    "judge": nursery.judge,
                    "kill": nursery.kill,
                }
                answer = orders[command.pop("op")](**command)
            except Exception as error:  # noqa: BLE001 - the caller decides
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers)
    finally:
        nursery.close()
        shutil.rmtree(config["root"], ignore_errors=True)  # the trainer may be gone and not do it


if __name__ == "__main__":
    main()
