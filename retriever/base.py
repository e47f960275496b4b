"""What every retriever answers, and the errors they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_envs.errors import AgentEnvsError
from agent_envs.records import Status

MAX_TOPK = 100
"""Most hits one query may ask for."""


class RetrieverError(AgentEnvsError):
    """A search could not be answered: the service is down, slow, or does not speak the protocol.

    In a batch of environments the row leaves training (``infra_error``); no error text reaches an observation.
    """

    status = Status.ERROR_SERVICE


class IndexMismatchError(AgentEnvsError, ValueError):
    """An index was built with another model or corpus than it is opened with."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of a corpus."""

    id: str
    contents: str
    """By the convention of wiki-18 the first line is the title in double quotes, the rest is the text."""

    @property
    def title(self) -> str:
        """The first line without outer double quotes."""
        line = self.contents.partition("\n")[0].strip()
        return line[1:-1] if len(line) > 1 and line[0] == line[-1] == '"' else line


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found."""

    id: str
    score: float
    """Larger is better; scores of different retrievers are not comparable."""
    contents: str


class Retriever(Protocol):
    """Finds passages. Implementations may be called from several threads at once."""

    def search(self, queries: Sequence[str], topk: int = 3) -> list[list[Hit]]:
        """Return the hits of each query, best first; fewer than ``topk`` if the corpus has no more.

        Raises:
            ValueError: For a blank query or a ``topk`` outside [1, 100].
            TypeError: If a query is no str.
            RetrieverError: If the search could not be carried out.
        """

    def describe(self) -> dict[str, Any]:
        """Return kind, corpus digest, size and, for dense retrievers, model and dimension."""

    def close(self) -> None:
        """Give back connections and threads."""


def check_request(queries: Sequence[str], topk: int) -> list[str]:
    """Return the queries as clean text: outer blanks stripped, lone surrogates replaced.

    Raises:
        ValueError: For a blank query or a ``topk`` outside [1, 100].
        TypeError: For another type.
    """
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise TypeError(f"queries must be a list of str, got {queries!r:.100}. For one query pass [query].")
    if isinstance(topk, bool) or not isinstance(topk, int):
        raise TypeError(f"topk must be an int, got {topk!r}.")
    if not 1 <= topk <= MAX_TOPK:
        raise ValueError(f"topk must be in [1, {MAX_TOPK}], got {topk}.")
    clean = []
    for place, query in enumerate(queries):
        if not isinstance(query, str):
            raise TypeError(f"Query {place} must be a str, got {type(query).__name__}.")
        text = query.encode("utf-8", "replace").decode("utf-8").strip()
        if not text:
            raise ValueError(f"Query {place} is blank. Leave blank queries out.")
        clean.append(text)
    return clean
