"""One call for many: merges concurrent searches, drops repeated queries and remembers answers."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_envs.retriever.base import Hit, Retriever, RetrieverError, check_request


@dataclass(slots=True)
class Statistics:
    """Counts since the start."""

    queries: int = 0
    """Queries asked."""
    cached: int = 0
    """Queries answered from memory."""
    calls: int = 0
    """Calls of the retriever behind."""
    searched: int = 0
    """Distinct queries in those calls; ``searched / calls`` is the mean batch."""


@dataclass(slots=True)
class _Job:
    queries: list[str]
    topk: int
    done: threading.Event = field(default_factory=threading.Event)
    answers: dict[str, list[Hit]] = field(default_factory=dict)
    error: Exception | None = None


class BatchingRetriever:
    """A retriever shared by many callers.

    Searches that arrive while another is under way, or within ``window_s`` of each other, go to the retriever behind
    as one call with distinct queries. So the members of a vector step that run in threads make one or two calls
    together, and members of a group that ask the same are served once.

    Args:
        inner: The retriever that does the work; it is called from one thread at a time.
        window_s: Seconds to wait for further searches before a call.
        max_batch: Most distinct queries in one call.
        cache_size: Answers to remember, the least recently used are dropped; 0 for none.
    """

    def __init__(
        self, inner: Retriever, *, window_s: float = 0.0, max_batch: int = 512, cache_size: int = 100_000
    ) -> None:
        self._inner = inner
        self._window_s, self._max_batch, self._cache_size = window_s, max_batch, cache_size
        self._cache: OrderedDict[tuple[str, int], tuple[Hit, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._pid = os.getpid()
        self.statistics = Statistics()

    def search(self, queries: Sequence[str], topk: int = 3) -> list[list[Hit]]:
        """Return the hits of each query, best first."""
        clean = check_request(queries, topk)
        answers: dict[str, list[Hit]] = {}
        with self._lock:
            self.statistics.queries += len(clean)
            for query in dict.fromkeys(clean):
                hits = self._cache.get((query, topk))
                if hits is not None:
                    self._cache.move_to_end((query, topk))
                    answers[query] = list(hits)
            missing = [query for query in dict.fromkeys(clean) if query not in answers]
            self.statistics.cached += sum(query in answers for query in clean)
            if missing:
                job = _Job(missing, topk)
                self._start_worker()
                self._jobs.put(job)
        if missing:
            job.done.wait()
            if job.error is not None:
                raise _copy(job.error) from job.error
            answers |= job.answers
        return [list(answers[query]) for query in clean]

    def describe(self) -> dict[str, Any]:
        """Return what the retriever behind says of itself."""
        return self._inner.describe()

    def close(self) -> None:
        """Stop the thread and close the retriever behind."""
        with self._lock:
            worker, self._worker = self._worker, None
            self._jobs.put(None)
        if worker is not None and worker is not threading.current_thread():
            worker.join(timeout=5.0)
        self._inner.close()

    def _start_worker(self) -> None:
        if self._pid != os.getpid():  # a forked child has the queue of its parent but no thread
            self._jobs, self._worker, self._pid = queue.SimpleQueue(), None, os.getpid()
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(
                target=self._work, args=(self._jobs,), name="retriever-batches", daemon=True
            )
            self._worker.start()

    def _work(self, jobs: queue.SimpleQueue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            batch, last = self._collect(jobs, job)
            for topk in {job.topk for job in batch}:
                self._answer([job for job in batch if job.topk == topk], topk)
            if last:
                return

    def _collect(self, jobs: queue.SimpleQueue[_Job | None], first: _Job) -> tuple[list[_Job], bool]:
        """Return the jobs to do together, and whether the end was asked for."""
        batch, size = [first], len(first.queries)
        until = time.monotonic() + self._window_s
        while size < self._max_batch:
            try:
                wait_s = until - time.monotonic()
                job = jobs.get(timeout=wait_s) if wait_s > 0 else jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
            size += len(job.queries)
        return batch, False

    def _answer(self, jobs: list[_Job], topk: int) -> None:
        distinct = list(dict.fromkeys(query for job in jobs for query in job.queries))
        try:
            found: dict[str, list[Hit]] = {}
            for start in range(0, len(distinct), self._max_batch):
                part = distinct[start : start + self._max_batch]
                found |= zip(part, self._inner.search(part, topk), strict=True)
                self.statistics.calls += 1
                self.statistics.searched += len(part)
        except Exception as error:  # noqa: BLE001 - every caller must hear of it, or it would wait for ever
            for job in jobs:
                job.error = error
                job.done.set()
            return
        with self._lock:
            for query, hits in found.items():
                self._cache[query, topk] = tuple(hits)
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        for job in jobs:
            job.answers = {query: found[query] for query in job.queries}
            job.done.set()


def _copy(error: Exception) -> Exception:
    """Return an error to raise in one of several callers: each needs an object of its own for its traceback."""
    return RetrieverError(str(error) if isinstance(error, RetrieverError) else f"{type(error).__name__}: {error}")
