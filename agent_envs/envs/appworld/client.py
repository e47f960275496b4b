"""A small typed client of one AppWorld environment server, over one persistent HTTP connection."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agent_envs.errors import AgentEnvsError
from agent_envs.records import Status


class WorldError(AgentEnvsError):
    """A world's process is gone, or answers what it should not."""

    status = Status.ERROR_SERVICE


class WorldTimeoutError(WorldError):
    """A world did not answer in time."""

    status = Status.ERROR_TIMEOUT


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskStart:
    """What a server tells at the start of an episode."""

    instruction: str
    supervisor: dict[str, str]
    """``first_name``, ``last_name``, ``email``, ``phone_number``."""
    datetime: str
    """The frozen time of the world, ISO 8601."""
    state: WorldState | None
    """None from a stock server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldState:
    """Digests of a world; equal iff what API calls and code can see of it is equal."""

    database: str
    """Of all rows of all apps, as 32 hexadecimal digits."""
    namespace: str
    """Of the variables that code has made, as 32 hexadecimal digits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """Result of one piece of code."""

    output: str
    completed: bool
    """The task was declared complete."""
    state: WorldState | None
    """None from a stock server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Verdict of the task's own tests on the final databases."""

    success: bool
    num_passed: int
    num_tests: int

    @property
    def score(self) -> float:
        """Fraction of the tests that passed, 0.0 if there are none."""
        return self.num_passed / self.num_tests if self.num_tests else 0.0


class AppWorldClient:
    """Calls the routes of an AppWorld environment server.

    It speaks to the servers of :mod:`agent_envs.envs.appworld.pool`, which tell the state with every answer, and to
    the stock ones of ``appworld serve environment``, which do not.

    Args:
        url: ``"http://127.0.0.1:8000"``.
        token: Bearer token; stock servers have none.
        timeout_s: Seconds a call may take until :class:`WorldTimeoutError`.

    Raises:
        ValueError: If ``url`` is not an http address with a host.
    """

    def __init__(self, url: str, *, token: str = "", timeout_s: float = 120.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"An AppWorld server is named like 'http://127.0.0.1:8000', got {url!r}.")
        self.url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
        self._task_id = ""

    def sandbox_layers(self) -> list[str]:
        """Return what confines the world; stock servers do not tell. Answers once the world is up."""
        answer = self._request("GET", "/", None)
        with _readable(self.url, "/"):
            return [str(layer) for layer in answer["sandbox"]]

    def initialize(self, task_id: str, settings: Mapping[str, Any]) -> TaskStart:
        """Load a task; ``settings`` are arguments of ``appworld.AppWorld``."""
        self._task_id = task_id
        answer = self._post("/initialize", {**settings, "task_id": task_id})
        with _readable(self.url, "/initialize"):
            start = answer["output"]
            return TaskStart(
                instruction=str(start["instruction"]),
                supervisor={key: str(value) for key, value in start["supervisor"].items()},
                datetime=str(start["datetime"]),
                state=_state(answer),
            )

    def execute(self, code: str) -> Execution:
        """Run a piece of code. It is never sent twice: after an error it may have run or not."""
        answer = self._post("/execute", {"task_id": self._task_id, "code": code})
        with _readable(self.url, "/execute"):
            output = answer["output"]
            if not isinstance(output, str):
                raise TypeError(f"output is {output!r}")
            completed = answer.get("completed")
            if completed is None:
                completed = self._post("/task_completed", {"task_id": self._task_id})["output"]
            return Execution(output=output, completed=completed is True, state=_state(answer))

    def evaluate(self, *, task_id: str = "", world: str = "") -> Evaluation:
        """Run the task's tests on the databases as they are.

        Args:
            task_id: For a judge: the task.
            world: For a judge: name of the world whose saved databases are tested.
        """
        extra = {"world": world} if world else {"suppress_errors": True, "report": False}
        answer = self._post("/evaluate", {"task_id": task_id or self._task_id, **extra})
        with _readable(self.url, "/evaluate"):
            verdict = answer["output"]
            passed, failed = len(verdict["passes"]), len(verdict["failures"])
            total = int(verdict.get("num_tests") or 0)
            return Evaluation(
                success=verdict["success"] is True, num_passed=passed, num_tests=max(total, passed + failed)
            )

    def save(self) -> None:
        """Write the databases to the world's folder, for a judge."""
        self._post("/save_state", {"task_id": self._task_id, "state_id": "end"})

    def close_task(self) -> None:
        """End the episode on a server that will be used again."""
        self._post("/close", {"task_id": self._task_id})

    def disconnect(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()

    def _post(self, route: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._request("POST", route, json.dumps(body).encode())

    def _request(self, method: str, route: str, body: bytes | None) -> dict[str, Any]:
        try:
            self._connection.request(method, self._path + route, body, self._headers)
            response = self._connection.getresponse()
            raw = response.read()
        except TimeoutError as error:
            self._connection.close()
            raise WorldTimeoutError(
                f"{self.url}{route} did not answer within {self._connection.timeout:g} s; the episode is given up."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise WorldError(
                f"{self.url}{route} broke off ({error!r}): the world's process has ended; the episode is given up."
            ) from error
        if response.status != 200:
            text = raw.decode("utf-8", "replace").strip()
            raise WorldError(f"{self.url}{route} answered HTTP {response.status}: {text[-500:] or response.reason}")
        with _readable(self.url, route):
            answer = json.loads(raw)
            if not isinstance(answer, dict):
                raise TypeError(f"expected an object, got {answer!r}")
        return answer


def _state(answer: Mapping[str, Any]) -> WorldState | None:
    state = answer.get("state")
    if state is None:
        return None
    return WorldState(database=str(state["db"]), namespace=str(state["namespace"]))


@contextlib.contextmanager
def _readable(url: str, route: str) -> Iterator[None]:
    """Turn whatever is wrong with an answer's form into a WorldError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorldError(f"{url}{route} sent an answer that cannot be read ({error!r}).") from error
