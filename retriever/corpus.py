r"""Corpora of passages: lists in memory, and JSON-lines files (the format of wiki-18) opened without loading them.

One passage a line: ``{"id": "0", "contents": "\"Title\"\ntext"}``. Where ``contents`` is missing, ``title`` and
``text`` are joined in that form. The line number, from 0, is the passage's row in every index over the corpus.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from agent_envs.cache import cache_folder
from agent_envs.retriever.base import Passage

_IN_MEMORY_BYTES = 64 << 20
_BLOCK_BYTES = 8 << 20


class Corpus(Protocol):
    """Passages by row."""

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that name the content; an index stores them."""

    def __len__(self) -> int:
        """Return the number of passages."""

    def __getitem__(self, row: int) -> Passage:
        """Return the passage of a row."""


def iterate(corpus: Corpus, start: int = 0) -> Iterator[Passage]:
    """Yield the passages in order."""
    return (corpus[row] for row in range(start, len(corpus)))


class MemoryCorpus:
    """A corpus in memory.

    Args:
        passages: The passages, in the order of their rows.
        digest: Digest of the file they came from; computed from the passages if None.

    Raises:
        ValueError: If ids repeat or there is no passage.
    """

    def __init__(self, passages: Iterable[Passage], *, digest: str | None = None) -> None:
        self._passages = list(passages)
        self._row: dict[str, int] = {}
        for row, passage in enumerate(self._passages):
            if self._row.setdefault(passage.id, row) != row:
                raise ValueError(
                    f"Passage ids must be distinct, {passage.id!r} is in rows {self._row[passage.id]} and {row}."
                )
        if not self._passages:
            raise ValueError("A corpus needs at least one passage.")
        self.digest = digest or _digest_of(self._passages)

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._passages)

    def __getitem__(self, row: int) -> Passage:
        """Return the passage of a row."""
        return self._passages[row]

    def find(self, passage_id: str) -> Passage:
        """Return the passage with an id.

        Raises:
            KeyError: If there is none.
        """
        return self._passages[self._row[passage_id]]


class JsonlCorpus:
    """A JSON-lines file, memory-mapped: opening 21 million passages costs 168 MB for the table of line starts.

    The table and the file's digest are made by one pass over the file and kept in the user's cache folder.

    Args:
        path: The file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is empty; a line that is not a passage raises when it is read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._starts, self.digest = _line_table(_existing(self.path))
        with self.path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> Passage:
        """Return the passage of a row."""
        if not 0 <= row < len(self):
            raise IndexError(f"row must be in [0, {len(self)}), got {row}.")
        line = self._bytes[int(self._starts[row]) : int(self._starts[row + 1])]
        return parse_passage(line, f"{self.path} line {row + 1}")


def load_corpus(path: str | os.PathLike[str]) -> MemoryCorpus | JsonlCorpus:
    """Open a JSON-lines corpus: in memory and fully checked up to 64 MiB, memory-mapped above.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not a passage (the text names it), ids repeat, or the file is compressed.
    """
    file = _existing(Path(path))
    if file.suffix in (".gz", ".zst", ".xz", ".zip"):
        raise ValueError(f"{file} is compressed. Unpack it first, for example: gunzip -k {file}")
    if file.stat().st_size > _IN_MEMORY_BYTES:
        return JsonlCorpus(file)
    data = file.read_bytes()
    lines = data.removesuffix(b"\n").split(b"\n")
    passages = (parse_passage(line, f"{file} line {number}") for number, line in enumerate(lines, 1))
    return MemoryCorpus(passages, digest=hashlib.blake2b(data, digest_size=16).hexdigest())


def parse_passage(line: bytes, where: str) -> Passage:
    """Read one line.

    Raises:
        ValueError: If it is not a passage; the text says where.
    """
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({error}): {line[:80]!r}.") from None
    if not isinstance(row, dict) or not isinstance(row.get("id"), (str, int)):
        raise ValueError(f"{where} has no id: {line[:80]!r}. Expected {{'id': ..., 'contents': ...}}.")
    contents = contents_of(row)
    if contents is None:
        raise ValueError(f"{where} has neither contents nor text: {line[:80]!r}.")
    return Passage(str(row["id"]), contents)


def contents_of(row: dict[str, object]) -> str | None:
    """Return the contents of a passage's JSON object, None if it has none."""
    contents, title, text = row.get("contents"), row.get("title"), row.get("text")
    if isinstance(contents, str):
        return contents
    if isinstance(text, str):
        return f'"{str(title).strip(chr(34))}"\n{text}' if title else text
    return None


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"No corpus file {path}. Expected JSON lines of {{'id': ..., 'contents': ...}}.")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty.")
    return path


def _digest_of(passages: Iterable[Passage]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for passage in passages:
        line = json.dumps([passage.id, passage.contents], ensure_ascii=False) + "\n"
        state.update(line.encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _line_table(path: Path) -> tuple[npt.NDArray[np.int64], str]:
    """Return the start of each line and the end of the last [N + 1], and the digest of the file."""
    stat = path.stat()
    name = hashlib.blake2b(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode(), digest_size=12).hexdigest()
    folder = cache_folder() / f"corpus-{name}"
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        starts: npt.NDArray[np.int64] = np.load(folder / "starts.npy", mmap_mode="r", allow_pickle=False)
        if len(starts) == meta["lines"] + 1 and starts[-1] == stat.st_size:
            return starts, str(meta["digest"])
    except (OSError, ValueError, KeyError):
        pass  # not there, or damaged: made again
    starts, digest = _scan_lines(path)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        np.save(partial / "starts.npy", starts)
        meta = {"path": str(path), "lines": len(starts) - 1, "digest": digest}
        (partial / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)  # without a cache the next opening costs a pass again
    return starts, digest


def _scan_lines(path: Path) -> tuple[npt.NDArray[np.int64], str]:
    state = hashlib.blake2b(digest_size=16)
    ends: list[npt.NDArray[np.int64]] = []
    offset = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            state.update(block)
            ends.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + offset + 1)
            offset += len(block)
    starts = np.concatenate([np.zeros(1, np.int64), *ends])
    if starts[-1] != offset:  # the last line has no newline
        starts = np.append(starts, offset)
    return starts, state.hexdigest()
