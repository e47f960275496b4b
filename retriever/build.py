"""Building a dense index: vectors in resumable float16 shards, then the FAISS file, then its description."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.downloads import ProgressBar
from agent_envs.retriever.base import IndexMismatchError
from agent_envs.retriever.corpus import Corpus
from agent_envs.retriever.encoder import Encoder
from agent_envs.retriever.index import (
    INDEX_FILE,
    IndexMeta,
    IndexPlan,
    choose_index,
    free_memory,
    import_faiss,
    plan_index,
)
from agent_envs.tasks import write_atomically

SHARD_ROWS = 4_096  # the work that a stop may cost
_ENCODE_ROWS = 256
_ADD_ROWS = 65_536
_TRAIN_PER_LIST = 64
_TRAIN_PQ = 65_536
_SEED = 20_240_229


def build_index(
    corpus: Corpus,
    encoder: Encoder,
    folder: str | os.PathLike[str],
    *,
    kind: str = "auto",
    shard_rows: int = SHARD_ROWS,
    keep_vectors: bool = False,
    progress: bool = False,
) -> IndexMeta:
    """Encode a corpus and write an index folder.

    Vectors are kept as float16 shards in ``<folder>/vectors`` while the work goes on; a run that was stopped goes on
    from the last whole shard. The folder counts as an index once ``meta.json`` is there, which is written last.

    Args:
        corpus: The passages.
        encoder: Makes the vectors.
        folder: Where to write.
        kind: ``"auto"`` (see :func:`~agent_envs.retriever.index.choose_index`) or a kind of it.
        shard_rows: Passages per shard.
        keep_vectors: Keep the shards, for building another kind without encoding again.
        progress: Show a progress bar.

    Raises:
        FileExistsError: If the folder holds an index.
        IndexMismatchError: If it holds shards of another corpus or encoder.
    """
    import_faiss()
    target = Path(folder)
    if (target / "meta.json").exists():
        raise FileExistsError(f"{target} holds an index already. Remove it first or choose another folder.")
    size = len(corpus)
    plan = choose_index(size, encoder.dim, free_memory()) if kind == "auto" else plan_index(kind, size, encoder.dim)
    shards = _encode_shards(corpus, encoder, target / "vectors", shard_rows, progress)
    write_index(shards, plan, encoder.dim, target)
    meta = IndexMeta(
        encoder=dict(encoder.identity),
        corpus=corpus.digest,
        size=size,
        kind=plan.kind,
        factory=plan.factory,
        nprobe=plan.nprobe,
        file_bytes=(target / INDEX_FILE).stat().st_size,
    )
    meta.save(target)
    if not keep_vectors:
        shutil.rmtree(target / "vectors")
    return meta


def write_index(shards: list[npt.NDArray[Any]], plan: IndexPlan, dim: int, folder: Path) -> None:
    """Train and fill a FAISS index and write it as ``index.faiss``.

    Args:
        shards: Vectors [n, dim] of all rows in order, any float type; memory-mapped arrays are read in parts.
        plan: The kind.
        dim: Length of a vector.
        folder: An existing folder.
    """
    faiss = import_faiss()
    index = faiss.index_factory(dim, plan.factory, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        index.train(_training_rows(shards, plan))
    for block in _blocks(shards):
        index.add(block)
    partial = folder / f".{INDEX_FILE}.{os.getpid()}"
    try:
        faiss.write_index(index, str(partial))
        os.replace(partial, folder / INDEX_FILE)
    finally:
        partial.unlink(missing_ok=True)


def _training_rows(shards: list[npt.NDArray[Any]], plan: IndexPlan) -> npt.NDArray[np.float32]:
    """Draw rows to train on with a fixed seed: enough per inverted list, and for the codebooks."""
    total = sum(len(shard) for shard in shards)
    wanted = min(total, max(plan.nlist * _TRAIN_PER_LIST, _TRAIN_PQ))
    rows = np.sort(np.random.default_rng(_SEED).choice(total, size=wanted, replace=False))
    starts = np.cumsum([0, *(len(shard) for shard in shards)])
    parts = []
    for shard, first, last in zip(shards, starts, starts[1:], strict=False):
        parts.append(np.asarray(shard[rows[(rows >= first) & (rows < last)] - first], dtype=np.float32))
    return np.concatenate(parts)


def _blocks(shards: list[npt.NDArray[Any]]) -> Iterator[npt.NDArray[np.float32]]:
    for shard in shards:
        for start in range(0, len(shard), _ADD_ROWS):
            yield np.ascontiguousarray(shard[start : start + _ADD_ROWS], dtype=np.float32)


def _encode_shards(
    corpus: Corpus, encoder: Encoder, folder: Path, shard_rows: int, progress: bool
) -> list[npt.NDArray[Any]]:
    _claim(folder, {"corpus": corpus.digest, "encoder": dict(encoder.identity), "shard_rows": shard_rows})
    size = len(corpus)
    bar = ProgressBar("encode", size, "passages")
    shards = []
    for number, start in enumerate(range(0, size, shard_rows)):
        path = folder / f"{number:06d}.npy"
        rows = range(start, min(start + shard_rows, size))
        if not path.exists():
            vectors = np.empty((len(rows), encoder.dim), np.float16)
            for first in range(0, len(rows), _ENCODE_ROWS):
                texts = [corpus[row].contents for row in rows[first : first + _ENCODE_ROWS]]
                vectors[first : first + len(texts)] = encoder.encode_passages(texts)
                if progress:
                    bar.show(start + first + len(texts))
            partial = path.with_suffix(f".partial-{os.getpid()}.npy")
            np.save(partial, vectors)
            os.replace(partial, path)
        shard = np.load(path, mmap_mode="r", allow_pickle=False)
        if shard.shape != (len(rows), encoder.dim):
            raise ValueError(
                f"{path} has shape {shard.shape}, expected {(len(rows), encoder.dim)}. Remove it and go on."
            )
        shards.append(shard)
    return shards


def _claim(folder: Path, made_of: dict[str, Any]) -> None:
    """Write down what the shards are made of, or check that those found are made of the same."""
    note = folder / "made_of.json"
    if note.exists():
        found = json.loads(note.read_text(encoding="utf-8"))
        if found != json.loads(json.dumps(made_of)):
            raise IndexMismatchError(
                f"{folder} holds vectors of another corpus, encoder or shard size. Remove the folder to start again."
            )
        return
    write_atomically(note, json.dumps(made_of))
