"""BM25 over a corpus in this process: needs nothing but numpy. For up to about a million passages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs.cache import cache_folder
from agent_envs.retriever.base import Hit, check_request
from agent_envs.retriever.bm25 import BM25Index
from agent_envs.retriever.corpus import Corpus, iterate

_INDEX_VERSION = 1  # raised when the analyser changes, so that an old cached index is not used
_MAX_PASSAGES = 2_000_000
_KEEP_FROM = 1_000  # smaller corpora are indexed in the time it takes to open a file


class BM25Retriever:
    """BM25 with the scores of Lucene (k1 0.9, b 0.4).

    The index is made on first use. From 1,000 passages on it is kept in the user's cache folder under the corpus
    digest, and later processes map it into memory. Its ids are rows, zero-padded, so that equal scores are ordered by
    row.

    Args:
        corpus: The passages.
        index_folder: Where to keep the index; None for the cache folder.

    Raises:
        ValueError: If the corpus is too large for this implementation.
    """

    def __init__(self, corpus: Corpus, *, index_folder: Path | None = None) -> None:
        if len(corpus) > _MAX_PASSAGES:
            raise ValueError(
                f"BM25 in this process is made for up to {_MAX_PASSAGES:,} passages, the corpus has {len(corpus):,}. "
                "Use a dense index (agent-envs retriever build) or a retrieval service (retriever_url)."
            )
        self._corpus = corpus
        self._index = _open_index(corpus, index_folder or cache_folder() / f"bm25-v{_INDEX_VERSION}-{corpus.digest}")

    def search(self, queries: Sequence[str], topk: int = 3) -> list[list[Hit]]:
        """Return the hits of each query, best first; passages without a query word are never found."""
        found = []
        for query in check_request(queries, topk):
            rows = ((self._corpus[int(row)], score) for row, score in self._index.search(query, topk))
            found.append([Hit(passage.id, score, passage.contents) for passage, score in rows])
        return found

    def rows(self, query: str, k: int) -> list[int]:
        """Return the rows of the best ``k`` passages of one clean query."""
        return [int(row) for row, _ in self._index.search(query, k)]

    def describe(self) -> dict[str, Any]:
        """Return kind, corpus digest and size."""
        return {
            "retriever": "bm25",
            "corpus": self._corpus.digest,
            "size": len(self._corpus),
            "model": "bm25",
            "dim": 0,
        }

    def close(self) -> None:
        """Nothing to give back."""


def _open_index(corpus: Corpus, folder: Path) -> BM25Index:
    try:
        index = BM25Index.load(folder)
        if len(index) == len(corpus):
            return index
    except FileNotFoundError:
        pass
    except ValueError:  # damaged: made again
        shutil.rmtree(folder, ignore_errors=True)
    width = len(str(len(corpus)))
    index = BM25Index([f"{row:0{width}d}" for row in range(len(corpus))], (p.contents for p in iterate(corpus)))
    if len(corpus) < _KEEP_FROM:
        return index
    try:
        index.save(folder)
    except OSError:
        pass  # another process was faster, or the cache is not writable: this index serves from memory
    return index
