"""AppWorld behind the interface of world_server.py. Run by AppWorld's interpreter only."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import os
import re
import types
from collections.abc import Iterator
from typing import Any

_STATEMENT = re.compile(r'\s*(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE|DELETE\s+FROM)\s+["`\[]?(\w+)', re.IGNORECASE)
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_MAX_PARTS = 20_000
_MAX_DEPTH = 30
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class Engine:
    """One live :class:`appworld.AppWorld`.

    Args:
        config: ``root`` is AppWorld's root, with the task data in ``data``; worlds write below
            ``experiments/outputs/<world>``. ``warm_task`` is the task loaded once to warm up.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        os.environ["APPWORLD_ROOT"] = config["root"]
        os.environ["APPWORLD_CACHE"] = os.path.join(config["root"], "cache")
        self._warm_task = config["warm_task"]
        self._module: Any = importlib.import_module("appworld.environment")
        self._class = _without_disk(self._module.AppWorld)
        self._world: Any = None
        self._databases: _Databases | None = None
        self._own: dict[str, Any] = {}

    def warm_up(self) -> None:
        """Load a task once: apps, routes, API documents and base databases stay in memory."""
        self.start(self._warm_task, {}, folder="warm")
        self.execute("print(apis.api_docs.show_app_descriptions()[0]['name'])")
        self.completed()
        self.digest()
        self.close()

    def start(self, task_id: str, settings: dict[str, Any], *, folder: str = "") -> dict[str, Any]:
        """Load a task into a new world."""
        if self._world is not None:
            self.close()
        # Below the world's folder, which cannot be deleted itself: AppWorld empties what it writes to.
        experiment = f"{folder or os.path.basename(os.getcwd())}/run"
        # The tests and answers stay out of the process that runs agent code.
        world = self._class(task_id=task_id, experiment_name=experiment, **{**settings, "load_ground_truth": False})
        self._world, self._own = world, dict(world.shell.user_ns)
        self._databases = _Databases(world.models)
        return {
            "instruction": world.task.instruction,
            "supervisor": {
                key: world.task.supervisor[key] for key in ("first_name", "last_name", "email", "phone_number")
            },
            "datetime": world.task.datetime.isoformat(),
        }

    def execute(self, code: str) -> str:
        """Run code in the world's shell."""
        return str(self._world.execute(code))

    def completed(self) -> bool:
        """Return whether ``complete_task`` was called."""
        return bool(self._world.task_completed())

    def save(self) -> None:
        """Write the changes of all databases into the world's folder."""
        self._world.write_state()

    def judge(self, task_id: str, world: str) -> dict[str, Any]:
        """Run the task's tests on what a world has saved."""
        evaluator: Any = importlib.import_module("appworld.evaluator")
        tracker = evaluator.evaluate_task(task_id=task_id, experiment_name=f"{world}/run", save_report=False)
        verdict: dict[str, Any] = tracker.to_dict(stats_only=False)
        names = ("passes", "failures")
        return {
            "success": bool(verdict["success"]),
            "num_tests": int(verdict["num_tests"]),
            **{name: [{"requirement": str(test["requirement"])} for test in verdict[name]] for name in names},
        }

    def digest(self) -> dict[str, str]:
        """Return digests of all databases and of the variables that code has made."""
        assert self._databases is not None
        return {"db": self._databases.digest(), "namespace": namespace_digest(self._world.shell.user_ns, self._own)}

    def close(self) -> None:
        """End the world."""
        world, self._world = self._world, None
        if world is not None:
            world.close()


def _without_disk(base: Any) -> Any:
    """Return AppWorld without the files it writes at every call; they are needed for the tests at the end only."""

    class QuietAppWorld(base):  # type: ignore[misc]
        def _save_state(self, directory: str) -> None:
            pass

        def save_logs(self) -> None:
            pass

        def write_state(self) -> None:
            super()._save_state(self.output_db_home_path_on_disk)

    return QuietAppWorld


# ---------------------------------------------------------------------- digests


class _Databases:
    """Digest of the rows of all apps; only tables that statements have written to since are read again."""

    def __init__(self, models: Any) -> None:
        self._models = models
        self._hash: dict[tuple[str, str], str] = {}
        self._seen: dict[str, int] = {}
        self._tables: dict[str, dict[str, str]] = {}
        for app, named in models.items():
            classes = named.SQLModel.name_to_model()
            self._tables[app] = {model.table_name: name for name, model in classes.items()}
            for name in classes:
                self._read(app, name)
            self._seen[app] = len(named.SQLModel.db.tracker.changes)

    def _read(self, app: str, model: str) -> None:
        rows = self._models[app][model].find_all_take_fields(["id", "record_hash"])
        content = repr(sorted((str(identity), str(record)) for identity, record in rows))
        self._hash[app, model] = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def digest(self) -> str:
        for app, named in self._models.items():
            changes = named.SQLModel.db.tracker.changes
            touched: set[str | None] = set()
            for statement, *_ in itertools.islice(changes, self._seen[app], None):
                match = _STATEMENT.match(statement)
                touched |= {self._tables[app].get(match[1])} if match else set(self._tables[app].values())
            self._seen[app] = len(changes)
            for model in touched - {None}:
                self._read(app, str(model))
        content = repr(sorted(self._hash.items()))
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def namespace_digest(now: dict[str, Any], start: dict[str, Any]) -> str:
    """Return a digest of the variables that differ from those at the start, by name and value.

    Values of plain types, functions and classes count by content, all others by the name of their type. A large value
    counts by its first 20,000 parts. Names that begin with an underscore do not count.
    """
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(now):
        if name.startswith("_") or name in ("In", "Out") or (name in start and start[name] is now[name]):
            continue
        parts = itertools.islice(_parts(now[name], 0), _MAX_PARTS)
        for part in itertools.chain((name,), parts):
            state.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return state.hexdigest()


def _parts(value: Any, depth: int) -> Iterator[str]:
    """Yield texts that tell a value from others, without calling code of the value."""
    kind = type(value)
    yield kind.__name__
    if depth > _MAX_DEPTH:
        return
    if kind is int:
        yield hex(value)
    elif kind in _PLAIN:
        yield _ADDRESS.sub("0x", repr(value))
    elif kind in (list, tuple):
        yield str(len(value))
        for item in value:
            yield from _parts(item, depth + 1)
    elif kind is dict:
        yield str(len(value))
        for key, item in value.items():
            yield from _parts(key, depth + 1)
            yield from _parts(item, depth + 1)
    elif kind in (set, frozenset):
        yield from sorted("\0".join(itertools.islice(_parts(item, depth + 1), _MAX_PARTS)) for item in value)
    elif kind is types.FunctionType:
        yield from _parts(value.__code__, depth + 1)
        yield from _parts(value.__defaults__, depth + 1)
    elif kind is types.CodeType:
        yield value.co_code.hex()
        yield from value.co_names
        for constant in value.co_consts:
            yield from _parts(constant, depth + 1)
    elif kind is types.ModuleType:
        yield value.__name__
    elif isinstance(value, type):
        for name, item in sorted(vars(value).items()):
            if not name.startswith("__"):
                yield name
                yield from _parts(item, depth + 1)
