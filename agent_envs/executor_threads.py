"""Members in a persistent pool of threads: for environments that wait for a service."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agent_envs.executors import EnvFactory, Executor, Failure, Member, Outcome, build_members, call_member
from agent_envs.records import Status

_CLOSE_WAIT_S = 1.0


class _Job:
    """One call of one member, handed to the pool."""

    def __init__(self, member: Member, method: str, arguments: tuple[Any, ...], limit_s: float | None) -> None:
        self.member = member
        self._method, self._arguments, self._limit_s = method, arguments, limit_s
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._started_s: float | None = None
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._outcome: Outcome | BaseException | None = None

    def work(self) -> bool:
        """Run the call in a thread of the pool; return False if that thread was given up and must end."""
        if not self._begin():
            return True  # given up before it started: the thread is still one of the pool
        outcome: Outcome | BaseException
        try:
            outcome = call_member(self.member, self._method, self._arguments, self._limit_s)
        except BaseException as error:  # handed to the caller's thread, which would wait for ever otherwise
            outcome = error
        with self._lock:
            self._outcome = outcome
            abandoned = self._abandoned
        self._done.set()
        if abandoned:
            self.member.discard()
        return not abandoned

    def _begin(self) -> bool:
        with self._lock:
            if not self._abandoned:
                self._started_s, self._thread = time.perf_counter(), threading.current_thread()
            return not self._abandoned

    def wait(self) -> Outcome | None:
        """Return the outcome, or None once the call has been running for longer than its limit."""
        limit_s = self._limit_s
        if limit_s is None:
            self._done.wait()
        else:
            remaining_s = limit_s
            while not self._done.wait(remaining_s):
                # A job that waited for a free thread has its full time from its own start.
                started_s = self._started_s
                remaining_s = limit_s if started_s is None else started_s + limit_s - time.perf_counter()
                if remaining_s <= 0:
                    return None
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def abandon(self) -> threading.Thread | None:
        """Give up on the call; return the thread that is stuck in it, if any."""
        with self._lock:
            if self._outcome is not None:
                return None
            self._abandoned = True
            return self._thread


def _serve(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        if not job.work():
            return
        del job  # otherwise an idle thread keeps the last member alive


class ThreadExecutor(Executor):
    """A call that goes over its limit is abandoned with its environment; another thread takes the place of its own."""

    def __init__(
        self,
        factory: EnvFactory,
        num_envs: int,
        *,
        num_threads: int,
        reset_timeout_s: float | None,
        step_timeout_s: float | None,
    ) -> None:
        super().__init__(reset_timeout_s=reset_timeout_s, step_timeout_s=step_timeout_s)
        self._factory = factory
        self._members = build_members(factory, range(num_envs))
        self.description = self._members[0].describe()
        reason = self._members[0].build().unwrapped.no_threads  # type: ignore[attr-defined]  # describe() saw the class
        if reason:
            for member in self._members.values():
                member.discard()
            raise ValueError(f"executor='threads' is not possible here: {reason} Use executor='processes'.")
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._add_threads(num_threads)

    def _add_threads(self, count: int) -> None:
        for _ in range(count):
            # Daemon threads: a call that never returns must not keep the interpreter from exiting.
            thread = threading.Thread(target=_serve, args=(self._jobs,), name="agent_envs-member", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _run(
        self, method: str, rows: Sequence[int], arguments: Sequence[tuple[Any, ...]], limit_s: float | None
    ) -> list[Outcome]:
        jobs = [_Job(self._members[row], method, args, limit_s) for row, args in zip(rows, arguments, strict=True)]
        for job in jobs:
            self._jobs.put(job)
        outcomes: list[Outcome] = []
        try:
            for row, job in zip(rows, jobs, strict=True):
                outcome = job.wait()
                if outcome is None:
                    self._abandon(row, job)
                    outcome = Failure(status=Status.ERROR_TIMEOUT, overdue_s=limit_s)
                outcomes.append(outcome)
        except BaseException:  # Ctrl-C: what still runs must not touch the members of the next batch
            for row, job in zip(rows, jobs, strict=True):
                self._abandon(row, job)
            raise
        return outcomes

    def _abandon(self, row: int, job: _Job) -> None:
        stuck = job.abandon()
        if stuck is not None:
            self._threads.remove(stuck)  # it ends by itself when the call comes back
            self._members[row] = Member(self._factory)
            self._add_threads(1)

    def envs(self) -> list[gym.Env[Any, Any]]:
        """Return the environments in the order of their rows."""
        return [member.build() for member in self._members.values()]

    def fingerprint(self, split: str) -> str:
        """Return the digest of a split's task data."""
        return self._members[0].fingerprint(split)

    def close(self) -> None:
        """End the threads and close all environments; a thread that is stuck in a call is left behind."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        deadline_s = time.perf_counter() + _CLOSE_WAIT_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.perf_counter()))
        for member in self._members.values():
            member.discard()
