"""Dense retrieval: an encoder and a FAISS index over the rows of a corpus."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs.cache import cache_folder
from agent_envs.retriever.base import Hit, check_request
from agent_envs.retriever.build import build_index
from agent_envs.retriever.corpus import Corpus
from agent_envs.retriever.encoder import E5Encoder, Encoder
from agent_envs.retriever.index import INDEX_FILE, IndexMeta, check_fits, import_faiss

_EMBED_AT_ONCE = 50_000
_HNSW_BREADTH = 128


class DenseRetriever:
    """Finds passages by the inner product of unit vectors.

    Args:
        corpus: The passages the index was built over.
        encoder: The encoder it was built with.
        folder: The index folder.
        memory_map: Leave the index on disk and let the system read what a search needs; if False it is loaded, after a
            check that it fits.
        nprobe: Inverted lists searched per query; None for the built-in choice.

    Raises:
        FileNotFoundError: If there is no index.
        IndexMismatchError: If it was built with another corpus or encoder.
        IndexTooLargeError: If it does not fit into memory.
        ValueError: If a file is damaged.
    """

    def __init__(
        self,
        corpus: Corpus,
        encoder: Encoder,
        folder: str | os.PathLike[str],
        *,
        memory_map: bool = True,
        nprobe: int | None = None,
    ) -> None:
        path = Path(folder)
        self.meta = IndexMeta.load(path)
        self.meta.check(corpus=corpus.digest, size=len(corpus), encoder=encoder.identity)
        self._corpus, self._encoder = corpus, encoder
        self._index = _read_index(path / INDEX_FILE, memory_map)
        if (self._index.ntotal, self._index.d) != (len(corpus), encoder.dim):
            raise ValueError(
                f"{path / INDEX_FILE} holds other vectors than its description says. Build the index again."
            )
        if self.meta.nprobe:
            _inverted(self._index).nprobe = nprobe or self.meta.nprobe
        if self.meta.kind == "hnsw":
            self._index.hnsw.efSearch = _HNSW_BREADTH
        self._lock = threading.Lock()

    def search(self, queries: Sequence[str], topk: int = 3) -> list[list[Hit]]:
        """Return the hits of each query, best first; equal scores in the order of rows."""
        return [
            [Hit(passage.id, score, passage.contents) for passage, score in ((self._corpus[r], s) for r, s in found)]
            for found in self.scored_rows(check_request(queries, topk), topk)
        ]

    def scored_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        """Return (row, score) of the best ``k`` passages of each clean query."""
        if not queries:
            return []
        vectors = self._encoder.encode_queries(queries)
        with self._lock:
            scores, rows = self._index.search(vectors, min(k, len(self._corpus)))
        # Row -1 fills up where an approximate search found fewer. FAISS leaves the order of equal scores open.
        pairs = (zip(r.tolist(), s.tolist(), strict=True) for r, s in zip(rows, scores, strict=True))
        return [
            sorted((pair for pair in found if pair[0] >= 0), key=lambda pair: (-pair[1], pair[0])) for found in pairs
        ]

    def describe(self) -> dict[str, Any]:
        """Return kind, corpus digest, size, model, dimension and index."""
        return {
            "retriever": "dense",
            "corpus": self.meta.corpus,
            "size": self.meta.size,
            "model": self.meta.encoder["model"],
            "dim": self._encoder.dim,
            "index": self.meta.factory,
        }

    def close(self) -> None:
        """Nothing to give back."""


def open_dense(corpus: Corpus, *, index: str | None, model: str | None, memory_map: bool = True) -> DenseRetriever:
    """Open an index, or the cached one of a small corpus, which is built on first use.

    Args:
        corpus: The passages.
        index: Index folder; None for the one in the cache folder.
        model: Encoder by name or folder; None for the embedded E5.
        memory_map: See :class:`DenseRetriever`.

    Raises:
        ValueError: If there is no index folder and the corpus is too large to be embedded on the way.
        FileNotFoundError: If the named folder holds no index.
    """
    import_faiss()
    if index is not None:
        IndexMeta.load(Path(index))  # says what is missing before a model is loaded
        return DenseRetriever(corpus, E5Encoder(model), index, memory_map=memory_map)
    if len(corpus) > _EMBED_AT_ONCE:
        raise ValueError(
            f"A corpus of {len(corpus):,} passages is not embedded on the way. Build an index once and pass index=DIR: "
            "agent-envs retriever build --corpus FILE --out DIR"
        )
    encoder = E5Encoder(model)
    folder = cache_folder() / f"index-{corpus.digest}-{encoder.identity['model']}-{encoder.identity['fingerprint']}"
    if not (folder / "meta.json").is_file():
        build_index(corpus, encoder, folder, kind="flat", progress=True)
    return DenseRetriever(corpus, encoder, folder, memory_map=memory_map)


def _read_index(path: Path, memory_map: bool) -> Any:
    faiss = import_faiss()
    if not memory_map:
        check_fits(path.stat().st_size, what=str(path))
    # MMAP_IFC maps any kind of index, the older flag only inverted files.
    flags = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP) if memory_map else 0
    try:
        return faiss.read_index(str(path), flags)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1][:200]
        raise ValueError(f"{path} cannot be read as a FAISS index ({reason}). Build it again.") from None


def _inverted(index: Any) -> Any:
    faiss = import_faiss()
    return faiss.extract_index_ivf(index)
