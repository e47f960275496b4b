"""BM25 over short texts in numpy, with the scores and the order of Lucene 9 (Anserini's defaults).

For query q and document d, in 32-bit floats as Lucene computes it::

    score(q, d) = sum over distinct terms t of  w_t - w_t / (1 + tf / K_d)
    w_t = qtf * ln(1 + (N - df + 0.5) / (df + 0.5))
    K_d = k1 * (1 - b + b * length_d / average_length)

``length_d`` is rounded the way Lucene stores it in one byte (`stored_length`), the average is exact, N counts the
documents with at least one term. Only documents that hold a query term are found. Order: score descending, then
document id ascending as text.
"""

import array
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.retriever.analysis import analyse, split_words, to_term

_FORMAT_VERSION = 1
_TOKENS_PER_CHUNK = 2_000_000  # words sorted at once while building: bounds the memory beyond the postings themselves
_ARRAYS = ("starts", "rows", "denominators", "idf", "rank")


def stored_length(length: int) -> int:
    """Round a document length as Lucene's one-byte norm does: above 40, 24 plus the four leading bits of the rest."""
    if length < 24:
        return length
    shift = max(0, (length - 24).bit_length() - 4)
    return 24 + ((length - 24) >> shift << shift)


class _Vocabulary(dict[str, int]):
    """Number of each word's term, filled on first sight; -1 marks a word that is not indexed."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = to_term(word)
        number = self.terms.setdefault(term, len(self.terms)) if term else -1
        self[word] = number
        return number


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Postings of a run of documents, sorted by term, then row."""

    terms: npt.NDArray[np.int64]  # [T] terms that occur
    sizes: npt.NDArray[np.int64]  # [T] postings of each
    rows: npt.NDArray[np.int32]  # [P]
    counts: npt.NDArray[np.int32]  # [P] occurrences of the term in the document


def _chunks(texts: Iterable[str], vocabulary: _Vocabulary, lengths: "array.array[int]") -> Iterator[_Chunk]:
    """Read the texts once and yield their postings; the document lengths are appended on the way."""
    words, first_row = array.array("i"), 0
    ends = array.array("q")

    def postings() -> _Chunk:
        numbers = np.array(words, dtype=np.int64)
        per_row = np.diff(np.array([0, *ends], dtype=np.int64)).astype(np.int64)
        row_of = np.repeat(np.arange(len(per_row)), per_row)
        kept = numbers >= 0
        lengths.extend(np.bincount(row_of[kept], minlength=len(per_row)).tolist())
        keys, counts = np.unique(numbers[kept] * len(per_row) + row_of[kept], return_counts=True)
        terms, sizes = np.unique(keys // len(per_row), return_counts=True)
        rows = (keys % len(per_row) + first_row).astype(np.int32)
        return _Chunk(terms, sizes, rows, counts.astype(np.int32))

    for text in texts:
        words.extend(map(vocabulary.__getitem__, split_words(text)))
        ends.append(len(words))
        if len(words) >= _TOKENS_PER_CHUNK:
            yield postings()
            first_row += len(ends)
            words, ends = array.array("i"), array.array("q")
    if len(ends):
        yield postings()


class BM25Index:
    """Read-only inverted index; safe to share between threads.

    Memory: 8 bytes for each pair of document and distinct term, about 100 bytes for each term, and the ids.
    """

    def __init__(self, ids: Sequence[str], texts: Iterable[str], *, k1: float = 0.9, b: float = 0.4) -> None:
        """Index the texts.

        Args:
            ids: Distinct document ids, the answers of `search`; also the last word on the order of equal scores.
            texts: One text per id, read once and not kept.
            k1: Saturation of repeated terms.
            b: Weight of the document length, in [0, 1].

        Raises:
            ValueError: If ids repeat, or ids and texts differ in number.
        """
        self.ids = list(ids)
        if len(set(self.ids)) != len(self.ids):
            repeated = next(name for name, count in Counter(self.ids).items() if count > 1)
            raise ValueError(f"ids must be distinct, got {repeated!r} more than once. Number the documents.")
        vocabulary, lengths = _Vocabulary(), array.array("q")
        chunks = list(_chunks(texts, vocabulary, lengths))
        if len(lengths) != len(self.ids):
            raise ValueError(
                f"ids and texts must have the same length, got {len(self.ids)} ids and {len(lengths)} texts."
            )
        self._terms = vocabulary.terms
        self._rank = np.empty(len(self.ids), dtype=np.int32)
        self._rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids), dtype=np.int32)
        self._fill(chunks, np.array(lengths, dtype=np.int64), np.float32(k1), np.float32(b))

    def _fill(self, chunks: list[_Chunk], lengths: npt.NDArray[np.int64], k1: np.float32, b: np.float32) -> None:
        """Join the chunks into one array per column, ordered by term, then row."""
        num_documents = max(1, int(np.count_nonzero(lengths)))
        df = np.zeros(len(self._terms), dtype=np.int64)
        for chunk in chunks:
            df[chunk.terms] += chunk.sizes
        self._starts = np.concatenate([[0], np.cumsum(df)])
        self._idf = np.array(
            [math.log(1 + (num_documents - n + 0.5) / (n + 0.5)) for n in df.tolist()], dtype=np.float32
        )
        average = np.float32(max(1, int(lengths.sum())) / num_documents)
        distinct, place = np.unique(lengths, return_inverse=True)
        rounded = np.array([stored_length(n) for n in distinct.tolist()], dtype=np.float32)[place]
        one = np.float32(1)
        inverse_k = one / (k1 * ((one - b) + b * rounded / average))  # [N] float32
        self._rows = np.empty(int(self._starts[-1]), dtype=np.int32)
        self._denominators = np.empty(len(self._rows), dtype=np.float32)
        free = self._starts[:-1].copy()  # next free place of each term
        chunks.reverse()
        while chunks:  # popped, so that each chunk's memory is given back once it is copied
            chunk = chunks.pop()
            first_in_chunk = np.cumsum(chunk.sizes) - chunk.sizes
            places = np.arange(len(chunk.rows)) + np.repeat(free[chunk.terms] - first_in_chunk, chunk.sizes)
            self._rows[places] = chunk.rows
            self._denominators[places] = one + chunk.counts.astype(np.float32) * inverse_k[chunk.rows]
            free[chunk.terms] += chunk.sizes

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the ids and the vocabulary."""
        return sum(getattr(self, "_" + name).nbytes for name in _ARRAYS)

    @property
    def num_postings(self) -> int:
        """Pairs of a document and a distinct term of it."""
        return len(self._rows)

    def search(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """Return up to k pairs (document id, score), best first.

        Args:
            query: Free text; query syntax has no meaning.
            k: Number of hits wanted, at least 1.

        Raises:
            ValueError: If k is smaller than 1.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got k={k}.")
        scores = np.zeros(len(self.ids))  # double, as Lucene sums
        for term, count in Counter(analyse(query)).items():
            number = self._terms.get(term)
            if number is None:
                continue
            here = slice(self._starts[number], self._starts[number + 1])
            weight = np.float32(count) * self._idf[number]
            scores[self._rows[here]] += weight - weight / self._denominators[here]
        found = np.flatnonzero(scores)
        values = scores[found].astype(np.float32)
        if len(found) > k:
            kept = values >= np.partition(values, -k)[-k]
            found, values = found[kept], values[kept]
        order = np.lexsort((self._rank[found], -values))[:k]
        return [(self.ids[row], float(value)) for row, value in zip(found[order].tolist(), values[order], strict=True)]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the index into a new folder, which appears complete or not at all.

        Raises:
            FileExistsError: If the folder exists; an index is never changed in place.
        """
        target = Path(folder)
        if target.exists():
            raise FileExistsError(f"{target} exists already. Remove it first or choose another folder.")
        partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        sizes = {}
        for name in _ARRAYS:
            values = getattr(self, "_" + name)
            np.save(partial / f"{name}.npy", values)
            sizes[name] = len(values)
        (partial / "ids.json").write_text(json.dumps(self.ids), encoding="utf-8")
        (partial / "terms.json").write_text(json.dumps(list(self._terms)), encoding="utf-8")
        (partial / "meta.json").write_text(json.dumps({"version": _FORMAT_VERSION, "sizes": sizes}), encoding="utf-8")
        try:
            os.replace(partial, target)
        except OSError:  # the folder has appeared meanwhile
            shutil.rmtree(partial)
            raise

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "BM25Index":
        """Open an index written by `save`; the postings are memory-mapped, so processes on one host share them.

        Raises:
            FileNotFoundError: If the folder or a file of it is missing.
            ValueError: If the files are not a whole index of this version.
        """
        source = Path(folder)
        if not (source / "meta.json").is_file():
            raise FileNotFoundError(
                f"No BM25 index in {source}. Build one with BM25Index(ids, texts).save({str(source)!r})."
            )
        index = cls.__new__(cls)
        try:
            meta: dict[str, Any] = json.loads((source / "meta.json").read_text(encoding="utf-8"))
            if meta["version"] != _FORMAT_VERSION:
                raise ValueError(f"version {meta['version']}, expected {_FORMAT_VERSION}")
            for name in _ARRAYS:
                values = np.load(source / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                if len(values) != meta["sizes"][name]:
                    raise ValueError(f"{name} has {len(values)} entries, expected {meta['sizes'][name]}")
                setattr(index, "_" + name, values)
            index.ids = json.loads((source / "ids.json").read_text(encoding="utf-8"))
            terms = json.loads((source / "terms.json").read_text(encoding="utf-8"))
            if len(index.ids) != len(index._rank) or len(terms) != len(index._idf):
                raise ValueError("ids or terms do not fit the arrays")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{source} holds no readable BM25 index ({error}). Remove it and build it again."
            ) from error
        index._terms = {term: number for number, term in enumerate(terms)}
        return index
