"""The retrieval service: Search-R1's API over any retriever, behind a production WSGI server.

``POST /retrieve`` with ``{"queries": [...], "topk": 3, "return_scores": true}`` answers ``{"result": [...]}``, one list
per query in order. With scores an item is ``{"document": {"id", "contents"}, "score"}``, without it is the document.
``{"query": "one"}`` is accepted in place of ``queries``. ``GET /health`` says what is served, ``GET /metrics`` counts.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_envs.errors import missing_extra
from agent_envs.retriever.base import MAX_TOPK, Hit, Retriever, RetrieverError
from agent_envs.retriever.batching import BatchingRetriever

DEFAULT_TOPK = 3
MERGE_WINDOW_S = 0.005
_DRAIN_S = 30.0
_LATENCIES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one request may ask for."""

    max_body_bytes: int = 4 << 20
    max_queries: int = 1024
    max_query_chars: int = 100_000
    max_topk: int = MAX_TOPK


class RequestError(Exception):
    """A request that is refused.

    Args:
        status: HTTP status.
        message: What is wrong and what is allowed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request."""

    queries: list[str]
    topk: int
    return_scores: bool


def read_request(body: Any, limits: Limits) -> Request:
    """Check the JSON of a request.

    Raises:
        RequestError: 413 for too many queries, 422 for everything else.
    """
    if not isinstance(body, Mapping):
        raise RequestError(422, "The body must be a JSON object with 'queries' (or 'query'), 'topk', 'return_scores'.")
    if ("queries" in body) == ("query" in body):
        raise RequestError(422, "Pass either 'queries', a list of str, or 'query', one str.")
    queries = [body["query"]] if "query" in body else body["queries"]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise RequestError(422, "'queries' must be a list of str.")
    if len(queries) > limits.max_queries:
        raise RequestError(413, f"{len(queries)} queries, at most {limits.max_queries} are allowed in one request.")
    for place, query in enumerate(queries):
        if not query.strip():
            raise RequestError(422, f"Query {place} is blank.")
        if len(query) > limits.max_query_chars:
            raise RequestError(413, f"Query {place} has {len(query)} characters, at most {limits.max_query_chars}.")
    topk = body.get("topk")
    topk = DEFAULT_TOPK if topk is None else topk
    if isinstance(topk, bool) or not isinstance(topk, int) or not 1 <= topk <= limits.max_topk:
        raise RequestError(422, f"'topk' must be an int in [1, {limits.max_topk}], got {topk!r}.")
    scores = body.get("return_scores")
    if not isinstance(scores, (bool, type(None))):
        raise RequestError(422, f"'return_scores' must be true or false, got {scores!r}.")
    return Request(queries, topk, bool(scores))


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"The body is not JSON: {type(error).__name__}: {error}") from None


class Metrics:
    """Counts in the text format of Prometheus."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statuses: Counter[int] = Counter()
        self._latencies: Counter[float] = Counter()
        self._seconds = 0.0
        self.in_flight = 0

    def begin(self) -> None:
        """Count a request that came in."""
        with self._lock:
            self.in_flight += 1

    def end(self, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self.in_flight -= 1
            self._statuses[status] += 1
            self._seconds += seconds
            for bound in _LATENCIES_S:
                self._latencies[bound] += seconds <= bound

    def text(self, retriever: BatchingRetriever) -> str:
        """Return the page of ``/metrics``."""
        counts = retriever.statistics
        with self._lock:
            total = sum(self._statuses.values())
            lines = [f'retriever_requests_total{{status="{s}"}} {n}' for s, n in sorted(self._statuses.items())]
            lines += [f'retriever_request_seconds_bucket{{le="{b}"}} {self._latencies[b]}' for b in _LATENCIES_S]
            lines += [
                f'retriever_request_seconds_bucket{{le="+Inf"}} {total}',
                f"retriever_request_seconds_sum {self._seconds:.6f}",
                f"retriever_request_seconds_count {total}",
                f"retriever_in_flight {self.in_flight}",
            ]
        return "\n".join(
            [
                *lines,
                f"retriever_queries_total {counts.queries}",
                f"retriever_queries_cached_total {counts.cached}",
                f"retriever_batches_total {counts.calls}",
                f"retriever_batch_queries_total {counts.searched}",
                "",
            ]
        )


def create_app(retriever: Retriever, *, limits: Limits | None = None, window_s: float = MERGE_WINDOW_S) -> Any:
    """Return the Flask application.

    Args:
        retriever: Answers the queries; concurrent requests are merged before they reach it.
        limits: What one request may ask for.
        window_s: Seconds to wait for requests to merge with.

    Raises:
        DependencyNotInstalled: If flask is not installed.
    """
    try:
        import flask
        from werkzeug.exceptions import HTTPException
    except ImportError:
        raise missing_extra("flask", "retriever") from None
    allowed = limits or Limits()
    app = flask.Flask("agent_envs_retriever")
    app.config["MAX_CONTENT_LENGTH"] = allowed.max_body_bytes
    batching = BatchingRetriever(retriever, window_s=window_s)
    about = retriever.describe()
    state = app.extensions["retriever"] = ServerState()

    def retrieve() -> Any:
        if state.draining:
            raise RequestError(503, "The service is shutting down.")
        request = read_request(_json_of(flask.request.get_data()), allowed)
        found = batching.search(request.queries, request.topk) if request.queries else []
        return flask.jsonify(result=[[_item(hit, request.return_scores) for hit in hits] for hits in found])

    def health() -> Any:
        return flask.jsonify(status="draining" if state.draining else "ok", **about)

    def metrics() -> Any:
        return flask.Response(state.metrics.text(batching), mimetype="text/plain")

    def begin() -> None:
        flask.g.started = time.perf_counter()
        state.metrics.begin()

    def end(response: Any) -> Any:
        state.metrics.end(response.status_code, time.perf_counter() - flask.g.started)
        return response

    def failed(error: Exception) -> Any:
        if isinstance(error, HTTPException):  # too large 413, wrong address 404, ...
            return flask.jsonify(error=str(error.description)), error.code or 500
        if isinstance(error, RequestError):
            return flask.jsonify(error=str(error)), error.status
        if not isinstance(error, RetrieverError):
            app.logger.error("request failed", exc_info=error)
        return flask.jsonify(error=f"{type(error).__name__}: {error}"), 500

    app.add_url_rule("/retrieve", view_func=retrieve, methods=["POST"])
    app.add_url_rule("/health", view_func=health)
    app.add_url_rule("/metrics", view_func=metrics)
    app.before_request(begin)
    app.after_request(end)
    app.register_error_handler(Exception, failed)
    return app


class ServerState:
    """What requests and shutdown share."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.draining = False


def serve(
    retriever: Retriever,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    threads: int = 64,
    limits: Limits | None = None,
    window_s: float = MERGE_WINDOW_S,
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are then answered, new ones get 503.

    Call it from the main thread.

    Args:
        retriever: Answers the queries.
        host: Address to bind; the default is reachable from this machine only.
        port: Port, 0 for a free one. The address is printed when the service is ready.
        threads: Requests handled at once.
        limits: What one request may ask for.
        window_s: Seconds to wait for requests to merge with.

    Raises:
        DependencyNotInstalled: If flask or waitress is not installed.
        OSError: If the port is taken.
    """
    try:
        import waitress
    except ImportError:
        raise missing_extra("waitress", "retriever") from None
    app = create_app(retriever, limits=limits, window_s=window_s)
    state: ServerState = app.extensions["retriever"]
    body_bytes = app.config["MAX_CONTENT_LENGTH"] + 1  # flask refuses first, with a message
    server = waitress.create_server(
        app, host=host, port=port, threads=threads, connection_limit=1024, max_request_body_size=body_bytes
    )
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # more clients than threads is no fault
    main = threading.get_ident()

    def stop() -> None:
        until = time.monotonic() + _DRAIN_S
        while state.metrics.in_flight and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.2)  # for the last answers to leave
        signal.pthread_kill(main, signal.SIGINT)

    def first_signal(*_: Any) -> None:
        if state.draining:
            raise KeyboardInterrupt  # the drain is over, or the user asks again: waitress ends its loop
        state.draining = True
        threading.Thread(target=stop, daemon=True).start()

    previous = {number: signal.signal(number, first_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        print(f"serving on http://{server.effective_host}:{server.effective_port}/retrieve", flush=True)
        server.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        server.close()
        retriever.close()
    print("stopped", file=sys.stderr, flush=True)


def _item(hit: Hit, with_score: bool) -> dict[str, Any]:
    document = {"id": hit.id, "contents": hit.contents}
    return {"document": document, "score": hit.score} if with_score else document
