"""Members in spawned worker processes, whole groups to a worker: for environments that are not thread-safe."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import gymnasium as gym
import numpy as np

from agent_envs.executors import (
    Description,
    EnvFactory,
    Executor,
    Failure,
    Member,
    Outcome,
    build_members,
    call_member,
    failure_of,
)
from agent_envs.records import Status

_CLOSE_WAIT_S = 5.0
_GRACE_S = 0.5  # on top of a limit, for the way to the worker and back: it measures its calls itself
_CONTEXT = multiprocessing.get_context("spawn")

Reply = list[tuple[int, Outcome]]
"""Position in the request and outcome."""


# ---------------------------------------------------------------------- in the worker


def _serve(pipe: Connection, factory: EnvFactory, rows: list[int]) -> None:
    """Build the members of ``rows`` and answer requests until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    # An OSError of the pipe means that the parent is gone. Those of environments are data, or sent while building.
    with contextlib.suppress(EOFError, OSError):
        try:
            members = build_members(factory, rows)
            description = members[rows[0]].describe()
        except Exception as error:
            pipe.send(_portable(error))
            return
        try:
            pipe.send(description)
            _answer_requests(pipe, members)
        finally:
            for member in members.values():
                member.discard()


def _answer_requests(pipe: Connection, members: dict[int, Member]) -> None:
    while (request := pipe.recv()) is not None:
        method, payload, limit_s = request
        if method == "fingerprint":
            pipe.send(_fingerprint(next(iter(members.values())), payload))
            continue
        member_of = {position: members[row] for position, row, _ in payload}
        for reply in _answer(members, method, payload, limit_s):
            _send(pipe, reply, member_of)


def _answer(
    members: dict[int, Member], method: str, payload: list[tuple[int, int, tuple[Any, ...]]], limit_s: float | None
) -> Iterator[Reply]:
    """Yield one reply for all rows, or with a limit one per row, so that the parent sees which row is late."""
    reply: Reply = []
    for position, row, arguments in payload:
        outcome = call_member(members[row], method, arguments, limit_s)
        reply.append((position, outcome))
        if limit_s is not None:
            yield reply
            reply = []
    if reply:
        yield reply


def _fingerprint(member: Member, split: str) -> str | Exception:
    try:
        return member.fingerprint(split)
    except Exception as error:
        return _portable(error)


def _send(pipe: Connection, reply: Reply, member_of: dict[int, Member]) -> None:
    try:
        pipe.send(reply)
    except OSError:
        raise
    except Exception:  # something in it does not pickle; nothing was written
        pipe.send([(position, _plain(outcome, member_of[position])) for position, outcome in reply])


def _plain(outcome: Outcome, member: Member) -> Outcome:
    try:
        pickle.dumps(outcome)
    except Exception as error:
        member.discard()  # the row has failed: like any other, it is rebuilt at the next reset
        return failure_of(error)
    return outcome


def _portable(error: Exception) -> Exception:
    """Return the error, or a RuntimeError with its text if its class does not survive the way to the parent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# ---------------------------------------------------------------------- in the parent


class _Worker:
    """One process and the parent's end of its pipe."""

    def __init__(self, factory: EnvFactory, rows: list[int]) -> None:
        self._factory, self.rows = factory, rows
        self.process: BaseProcess | None = None
        self.pipe: Connection | None = None
        self.lost = Failure(status=Status.ERROR_ENV, what="worker process not started")

    def start(self) -> None:
        """Start the process; :meth:`receive_description` waits for it."""
        self.pipe, child = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=_serve, args=(child, self._factory, self.rows), name="agent_envs-worker", daemon=True
        )
        try:
            process.start()
        finally:
            child.close()
        self.process = process

    def receive(self) -> Any:
        """Return the next message.

        Raises:
            EOFError: If the process died; ``lost`` says how.
        """
        assert self.pipe is not None and self.process is not None
        try:
            # A dead worker's pipe gives EOF, unless a process that it forked still holds the other end.
            if self.pipe in wait([self.pipe, self.process.sentinel]):
                return self.pipe.recv()
        except (EOFError, OSError):
            pass
        self.stop()
        raise EOFError(self.lost.what)

    def request(self, method: str, payload: Any, limit_s: float | None) -> bool:
        """Send a request; return False if the process is dead."""
        if self.pipe is None:
            return False
        try:
            self.pipe.send((method, payload, limit_s))
        except OSError:
            self.stop()
            return False
        return True

    def stop(self, why: str = "", *, wait_s: float = _CLOSE_WAIT_S) -> None:
        """End the process, at once if ``why`` is given; ``lost`` then holds ``why`` or the exit code."""
        process, self.process = self.process, None
        pipe, self.pipe = self.pipe, None
        if process is not None:
            if why:
                process.kill()
            process.join(wait_s)
            if process.exitcode is None:
                process.kill()
                process.join()
            why = why or f"worker process died (exit code {process.exitcode})"
            process.close()
            self.lost = Failure(status=Status.ERROR_ENV, what=why)
        if pipe is not None:
            pipe.close()

    def ask_to_end(self) -> None:
        """Ask the process to close its environments and end."""
        if self.pipe is not None:
            with contextlib.suppress(OSError):
                self.pipe.send(None)


class _Pending:
    """A worker that has not answered for all of its rows."""

    def __init__(self, worker: _Worker, positions: list[int], limit_s: float | None) -> None:
        self.worker, self._limit_s = worker, limit_s
        self.positions = positions
        self.deadline_s: float | None = None
        self.extend()

    def extend(self) -> None:
        if self._limit_s is not None:
            self.deadline_s = time.perf_counter() + self._limit_s + _GRACE_S

    def take(self, outcomes: list[Outcome]) -> None:
        """Receive one reply; if the worker is dead, its open rows fail."""
        try:
            reply = self.worker.receive()
        except EOFError:
            self.fail(outcomes)
            return
        for position, outcome in reply:
            outcomes[position] = outcome
        del self.positions[: len(reply)]
        self.extend()

    def fail(self, outcomes: list[Outcome]) -> None:
        for position in self.positions:
            outcomes[position] = self.worker.lost
        self.positions = []

    def expire(self, outcomes: list[Outcome]) -> None:
        """Kill the worker: the row that it is in went over its limit, and the rows behind it are lost with it."""
        self.worker.stop("worker process was stopped, another row of it went over its time limit")
        late, *self.positions = self.positions
        outcomes[late] = Failure(status=Status.ERROR_TIMEOUT, overdue_s=self._limit_s)
        self.fail(outcomes)


class ProcessExecutor(Executor):
    """K workers, each with the members of whole groups; a dead worker is replaced at the next reset."""

    def __init__(
        self,
        factory: EnvFactory,
        *,
        num_groups: int,
        group_size: int,
        num_processes: int,
        reset_timeout_s: float | None,
        step_timeout_s: float | None,
    ) -> None:
        super().__init__(reset_timeout_s=reset_timeout_s, step_timeout_s=step_timeout_s)
        try:
            pickle.dumps(factory)
        except Exception as error:
            raise ValueError(
                f"executor='processes' needs an env_factory that pickles, for example a function of a module: {error}"
            ) from None
        self._workers = []
        for groups in np.array_split(np.arange(num_groups), num_processes):
            first, last = int(groups[0]) * group_size, (int(groups[-1]) + 1) * group_size
            self._workers.append(_Worker(factory, list(range(first, last))))
        self._worker_of = {row: worker for worker in self._workers for row in worker.rows}
        try:
            self.description = self._start_missing()[0]
        except BaseException:
            self.close()
            raise

    def _start_missing(self, *, tolerant: bool = False) -> list[Description]:
        """Start the workers that are not running; all start at once, then each is waited for."""
        missing = [worker for worker in self._workers if worker.process is None]
        try:
            return self._start(missing, tolerant=tolerant)
        except BaseException:  # Ctrl-C: a description that nobody read must not pass for the answer to the next call
            for worker in missing:
                worker.stop("worker process was stopped, its start was interrupted")
            raise

    @staticmethod
    def _start(missing: list[_Worker], *, tolerant: bool) -> list[Description]:
        for worker in missing:
            worker.start()
        descriptions = []
        for worker in missing:
            try:
                message = worker.receive()
            except EOFError as error:
                if not tolerant:
                    raise RuntimeError(f"{error} while it built its environments; its output says why.") from None
                continue
            if isinstance(message, Exception):
                worker.stop()
                if not tolerant:
                    raise message
                worker.lost = failure_of(message)
                continue
            descriptions.append(message)
        return descriptions

    def _run(
        self, method: str, rows: Sequence[int], arguments: Sequence[tuple[Any, ...]], limit_s: float | None
    ) -> list[Outcome]:
        if method == "reset":
            self._start_missing(tolerant=True)
        requests: dict[_Worker, list[tuple[int, int, tuple[Any, ...]]]] = {}
        for position, (row, args) in enumerate(zip(rows, arguments, strict=True)):
            requests.setdefault(self._worker_of[row], []).append((position, row, args))
        outcomes: list[Outcome] = [Failure(status=Status.ERROR_ENV)] * len(rows)
        pending: list[_Pending] = []
        try:
            for worker, payload in requests.items():
                entry = _Pending(worker, [position for position, _, _ in payload], limit_s)
                pending.append(entry)  # before the request, which Ctrl-C may interrupt
                if not worker.request(method, payload, limit_s):
                    entry.fail(outcomes)
            while pending := [entry for entry in pending if entry.positions]:
                self._collect(pending, outcomes)
        except BaseException:  # Ctrl-C: the answers still under way must not be read as those of the next call
            for entry in pending:
                entry.worker.stop("worker process was stopped, the call was interrupted")
            raise
        return outcomes

    @staticmethod
    def _collect(pending: list[_Pending], outcomes: list[Outcome]) -> None:
        """Wait for the next replies, deaths or deadlines."""
        deadlines = [entry.deadline_s for entry in pending if entry.deadline_s is not None]
        timeout_s = max(0.0, min(deadlines) - time.perf_counter()) if deadlines else None
        watched: dict[Any, _Pending] = {}
        for entry in pending:
            assert entry.worker.process is not None
            watched[entry.worker.pipe] = watched[entry.worker.process.sentinel] = entry
        ready = wait(list(watched), timeout_s)
        # A dead worker's pipe may still hold replies: they are read first, then it gives EOF.
        for entry in {id(watched[item]): watched[item] for item in ready}.values():
            entry.take(outcomes)
        now_s = time.perf_counter()
        for entry in pending:
            if entry.positions and entry.deadline_s is not None and now_s > entry.deadline_s:
                entry.expire(outcomes)

    def envs(self) -> list[gym.Env[Any, Any]]:
        """Refuse: the environments live in the workers."""
        raise AttributeError("executor='processes' has no envs here, they live in its workers; use 'serial' to look.")

    def fingerprint(self, split: str) -> str:
        """Return the digest of a split's task data, computed by one worker."""
        if all(worker.process is None for worker in self._workers):
            self._start_missing()
        worker = next(worker for worker in self._workers if worker.process is not None)
        try:
            if not worker.request("fingerprint", split, None):
                raise RuntimeError(worker.lost.what)
            answer = worker.receive()
        except BaseException:
            worker.stop("worker process was stopped, the call was interrupted")
            raise
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    def close(self) -> None:
        """Let the workers close their environments, then end them."""
        for worker in self._workers:
            worker.ask_to_end()
        deadline_s = time.perf_counter() + _CLOSE_WAIT_S
        for worker in self._workers:
            worker.stop(wait_s=max(0.0, deadline_s - time.perf_counter()))
