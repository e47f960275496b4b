"""Hybrid retrieval: BM25 and dense rankings merged by reciprocal rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from agent_envs.retriever.base import MAX_TOPK, Hit, check_request
from agent_envs.retriever.corpus import Corpus
from agent_envs.retriever.dense import DenseRetriever
from agent_envs.retriever.sparse import BM25Retriever

_RANK_OFFSET = 60  # k of Cormack, Clarke and Buettcher 2009


class HybridRetriever:
    """Scores a passage by the sum of 1 / (60 + rank) over the two rankings, each 100 deep (reciprocal rank fusion).

    Args:
        sparse: BM25 over the corpus.
        dense: Dense retrieval over the same corpus.
        corpus: The passages.
    """

    def __init__(self, sparse: BM25Retriever, dense: DenseRetriever, corpus: Corpus) -> None:
        self._sparse, self._dense, self._corpus = sparse, dense, corpus

    def search(self, queries: Sequence[str], topk: int = 3) -> list[list[Hit]]:
        """Return the hits of each query, best first; equal scores in the order of rows."""
        clean = check_request(queries, topk)
        dense = self._dense.scored_rows(clean, MAX_TOPK)
        found = []
        for query, ranked in zip(clean, dense, strict=True):
            scores: defaultdict[int, float] = defaultdict(float)
            for rows in (self._sparse.rows(query, MAX_TOPK), [row for row, _ in ranked]):
                for rank, row in enumerate(rows, 1):
                    scores[row] += 1 / (_RANK_OFFSET + rank)
            best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:topk]
            passages = ((self._corpus[row], score) for row, score in best)
            found.append([Hit(passage.id, score, passage.contents) for passage, score in passages])
        return found

    def describe(self) -> dict[str, Any]:
        """Return what the dense half says, with the kind."""
        return {**self._dense.describe(), "retriever": "hybrid"}

    def close(self) -> None:
        """Nothing to give back."""
