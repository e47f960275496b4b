"""A retriever behind HTTP: Search-R1's retrieval API (``POST /retrieve``), ours or anybody's server for it."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from agent_envs.keys import digest
from agent_envs.retriever.base import Hit, RetrieverError, check_request
from agent_envs.retriever.corpus import contents_of

_PAUSES_S = (0.5, 1.0, 2.0)
_MAX_QUERIES = 512
_STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class _Refused(RetrieverError):
    """The server understood the request and refuses it: trying again cannot help."""


class HTTPRetriever:
    """Client with persistent connections, one per thread and server, and a bounded number of tries.

    A request that fails goes to the next server after a pause of 0.5, 1, 2 s. An answer of 4xx is final.

    Args:
        urls: One address, or several of equal servers that are used in turn. Without a path, ``/retrieve`` is meant.
        timeout_s: Seconds a server may take to answer.
        tries: Most requests per search.

    Raises:
        ValueError: For an address that is not http or https, or no address.
    """

    def __init__(self, urls: str | Sequence[str], *, timeout_s: float = 60.0, tries: int = 3) -> None:
        self._urls = [_split(url) for url in ([urls] if isinstance(urls, str) else urls)]
        if not self._urls:
            raise ValueError("urls must name at least one server, for example 'http://127.0.0.1:8000/retrieve'.")
        if not timeout_s > 0 or tries < 1:
            raise ValueError(f"timeout_s must be > 0 and tries >= 1, got {timeout_s!r} and {tries!r}.")
        self._timeout_s, self._tries = timeout_s, tries
        self._turn = itertools.count()
        self._local = threading.local()
        self._open: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def search(self, queries: Sequence[str], topk: int = 3) -> list[list[Hit]]:
        """Return the hits of each query, best first."""
        clean = check_request(queries, topk)
        found: list[list[Hit]] = []
        for start in range(0, len(clean), _MAX_QUERIES):
            part = clean[start : start + _MAX_QUERIES]
            body = json.dumps({"queries": part, "topk": topk, "return_scores": True}).encode()
            found += self._ask("POST", body, lambda answer, part=part: _read_hits(answer, len(part), topk))
        return found

    def describe(self) -> dict[str, Any]:
        """Return what the server's ``/health`` says; servers of other make may have none and give a RetrieverError."""
        answer = self._ask("GET", b"", lambda answer: answer)
        return {"retriever": "http", **(answer if isinstance(answer, dict) else {})}

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            connections, self._open = self._open, []
        for connection in connections:
            connection.close()

    def _ask(self, method: str, body: bytes, read: Any) -> Any:
        first = next(self._turn)
        problem = ""
        for number in range(self._tries):
            url = self._urls[(first + number) % len(self._urls)]
            path = (url.path if method == "POST" else "/health") + (f"?{url.query}" if url.query else "")
            try:
                return read(self._request(url, method, path, body))
            except _Refused:
                raise
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{url.geturl()}: {type(error).__name__}: {error}"
            if number + 1 < self._tries:
                time.sleep(_PAUSES_S[min(number, len(_PAUSES_S) - 1)])
        raise RetrieverError(
            f"The retrieval service did not answer in {self._tries} tries, last {problem}. "
            "Check that it runs: agent-envs retriever serve"
        )

    def _request(self, url: SplitResult, method: str, path: str, body: bytes) -> Any:
        connections: dict[str, http.client.HTTPConnection] = self._local.__dict__
        for fresh in (url.netloc not in connections, True):
            connection = connections.get(url.netloc) or self._connect(url)
            connections[url.netloc] = connection
            try:
                connection.request(method, path, body or None, {"Content-Type": "application/json"} if body else {})
                response = connection.getresponse()
                data = response.read()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                del connections[url.netloc]
                with self._lock:
                    if connection in self._open:
                        self._open.remove(connection)
                # A server may close an idle connection at any time; that is no failure of this request.
                if fresh or not isinstance(error, _STALE):
                    raise
        if 400 <= response.status < 500:
            raise _Refused(f"{url.geturl()} refused the request with {response.status}: {data[:300]!r}")
        if response.status != 200:
            raise ValueError(f"status {response.status}: {data[:200]!r}")
        return json.loads(data)

    def _connect(self, url: SplitResult) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.netloc, timeout=self._timeout_s)
        with self._lock:
            self._open.append(connection)
        return connection


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"A retrieval address must look like 'http://127.0.0.1:8000/retrieve', got {url!r}.")
    return parts if parts.path not in ("", "/") else parts._replace(path="/retrieve")


def _read_hits(answer: Any, num_queries: int, topk: int) -> list[list[Hit]]:
    """Read an answer with or without scores.

    Raises:
        ValueError: If it has another shape.
    """
    result = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(result, list) or len(result) != num_queries:
        raise ValueError(f"expected a result with {num_queries} lists, got {str(answer)[:200]}")
    return [[_read_hit(item) for item in _as_list(items)[:topk]] for items in result]


def _as_list(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise ValueError(f"expected a list of documents, got {str(items)[:200]}")
    return items


def _read_hit(item: Any) -> Hit:
    document = item.get("document", item) if isinstance(item, dict) else None
    contents = contents_of(document) if isinstance(document, dict) else None
    if document is None or contents is None:
        raise ValueError(f"expected a document with contents, got {str(item)[:200]}")
    score = item.get("score", 0.0)
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise ValueError(f"expected a number as score, got {str(score)[:100]}")
    identity = document.get("id")
    return Hit(str(identity) if identity is not None else digest(contents), float(score), contents)
