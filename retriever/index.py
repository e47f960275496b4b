"""Kinds of FAISS indexes: what they cost, which to take, and the file that says what an index was made of.

Memory of N vectors of dimension d: flat 4Nd bytes, fp16 2Nd, SQ8 Nd, product quantiser with m bytes Nm; an inverted
file adds 8N for ids and 4 d nlist for its centroids; HNSW with M links adds about (8M + 12) N.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_envs.errors import AgentEnvsError, missing_extra, unknown_name
from agent_envs.retriever.base import IndexMismatchError
from agent_envs.tasks import write_atomically

KINDS = ("flat", "fp16", "sq8", "ivf", "ivf_sq8", "ivf_pq", "hnsw")
META_FILE, INDEX_FILE = "meta.json", "index.faiss"
_FORMAT = 1
_EXACT_LIMIT = 200_000  # vectors up to which exact search is fast enough to need no choice
_HNSW_LINKS = 32
_MIN_PER_LIST = 39  # FAISS warns below 39 training vectors per centroid
_ID_BYTES, _LINK_BYTES, _NODE_BYTES = 8, 8, 12


class IndexTooLargeError(AgentEnvsError):
    """An index does not fit into the memory that is free."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexPlan:
    """An index to build."""

    kind: str
    factory: str
    """FAISS factory string."""
    num_bytes: int
    """Memory of the index, estimated."""
    nlist: int
    """Inverted lists, 0 without."""
    nprobe: int
    """Lists searched per query, 0 without."""
    reason: str = ""
    """Why this kind was chosen."""


def plan_index(kind: str, size: int, dim: int) -> IndexPlan:
    """Return factory string and memory of an index of ``size`` vectors.

    Raises:
        ValueError: For an unknown kind or a number that is not positive.
    """
    if kind not in KINDS:
        raise unknown_name("index kind", kind, KINDS)
    if size < 1 or dim < 1:
        raise ValueError(f"size and dim must be >= 1, got {size} and {dim}.")
    nlist = num_lists(size) if kind.startswith("ivf") else 0
    lists = nlist * dim * 4 + size * _ID_BYTES
    sub = pq_bytes(dim)
    factory, num_bytes = {
        "flat": ("Flat", 4 * size * dim),
        "fp16": ("SQfp16", 2 * size * dim),
        "sq8": ("SQ8", size * dim),
        "ivf": (f"IVF{nlist},Flat", 4 * size * dim + lists),
        "ivf_sq8": (f"IVF{nlist},SQ8", size * dim + lists),
        "ivf_pq": (f"IVF{nlist},PQ{sub}", size * sub + lists + 4 * 256 * dim),
        "hnsw": (f"HNSW{_HNSW_LINKS}", size * (4 * dim + _LINK_BYTES * _HNSW_LINKS + _NODE_BYTES)),
    }[kind]
    return IndexPlan(kind=kind, factory=factory, num_bytes=num_bytes, nlist=nlist, nprobe=min(64, nlist))


def choose_index(size: int, dim: int, available_bytes: int) -> IndexPlan:
    """Return the most exact index that is fast and fits into half of the free memory, with the reason.

    Up to 200,000 vectors flat, which is exact; above, an inverted file whose vectors are whole, 8-bit, or product
    codes, whichever fits first.
    """
    flat = plan_index("flat", size, dim)
    room = available_bytes // 2
    if size <= _EXACT_LIMIT and flat.num_bytes <= room:
        return _because(flat, f"{size:,} vectors: exact search is fast and takes {_gib(flat.num_bytes)}")
    reason = f"{size:,} vectors, {_gib(room)} is half of the free memory"
    for kind in ("ivf", "ivf_sq8", "ivf_pq"):
        plan = plan_index(kind, size, dim)
        if plan.num_bytes <= room:
            return _because(
                plan, f"{reason}: {kind} takes {_gib(plan.num_bytes)}, flat would take {_gib(flat.num_bytes)}"
            )
        reason += f", {kind} would take {_gib(plan.num_bytes)}"
    smallest = plan_index("ivf_pq", size, dim)
    return _because(smallest, f"{reason}: the smallest kind, to be opened memory-mapped or on a larger host")


def num_lists(size: int) -> int:
    """Return the number of inverted lists: the power of two near 4 sqrt(N), with enough vectors to train each."""
    wanted = 1 << round(math.log2(4 * math.sqrt(size)))
    return max(1, min(wanted, 65536, size // _MIN_PER_LIST))


def pq_bytes(dim: int) -> int:
    """Return the bytes of a product code: the largest divisor of the dimension up to an eighth of it, at most 96."""
    return next(m for m in range(min(96, max(1, dim // 8)), 0, -1) if dim % m == 0)


def free_memory() -> int:
    """Return the bytes of memory that this process may still take."""
    free = _meminfo("MemAvailable")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = int((Path("/sys/fs/cgroup") / name).read_text())
        except (OSError, ValueError):
            continue
        free = min(free, limit)
    return free


def check_fits(num_bytes: int, *, what: str, available_bytes: int | None = None) -> None:
    """Refuse to load what does not fit, before anything is read.

    Raises:
        IndexTooLargeError: With the numbers and what to do.
    """
    free = free_memory() if available_bytes is None else available_bytes
    if num_bytes > free:
        raise IndexTooLargeError(
            f"{what} needs {_gib(num_bytes)}, {_gib(free)} of memory are free. Open it memory-mapped "
            "(memory_map=True), build a smaller kind (--kind ivf_sq8 or ivf_pq), or split the corpus over several "
            "services."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexMeta:
    """What an index was made of; stored beside it."""

    encoder: dict[str, Any]
    """Identity of the encoder: model, fingerprint, dimension, prefixes, lengths."""
    corpus: str
    """Digest of the corpus."""
    size: int
    """Number of vectors."""
    kind: str
    factory: str
    nprobe: int
    file_bytes: int
    """Size of the index file; another size means it was cut off."""
    format: int = _FORMAT

    def save(self, folder: Path) -> None:
        """Write ``meta.json``."""
        write_atomically(folder / META_FILE, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> IndexMeta:
        """Read the meta file of an index folder and check that the index file is whole.

        Raises:
            FileNotFoundError: If the folder or a file of it is missing; the text has the command that builds it.
            ValueError: If a file is damaged.
        """
        path = folder / META_FILE
        if not path.is_file() or not (folder / INDEX_FILE).is_file():
            raise FileNotFoundError(
                f"No dense index in {folder}. Build one: agent-envs retriever build --corpus CORPUS --out {folder}. "
                "BM25 (retriever='bm25') needs no index."
            )
        try:
            meta = cls(**json.loads(path.read_text(encoding="utf-8")))
            if meta.format != _FORMAT:
                raise ValueError(f"format {meta.format}, expected {_FORMAT}")
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path} is no index description of this version ({error}). Build the index again."
            ) from None
        found = (folder / INDEX_FILE).stat().st_size
        if found != meta.file_bytes:
            raise ValueError(
                f"{folder / INDEX_FILE} has {found:,} bytes, expected {meta.file_bytes:,}: it was cut off. "
                "Build it again."
            )
        return meta

    def check(self, *, corpus: str, size: int, encoder: Mapping[str, Any]) -> None:
        """Refuse another corpus or encoder: such an index would find garbage without a word.

        Raises:
            IndexMismatchError: The text names what differs.
        """
        if (self.corpus, self.size) != (corpus, size):
            raise IndexMismatchError(
                f"The index was built over corpus {self.corpus} of {self.size:,} passages, this one is {corpus} of "
                f"{size:,}. Build the index again or open the corpus it was built over."
            )
        differing = {key for key in {*self.encoder, *encoder} if self.encoder.get(key) != encoder.get(key)}
        if differing:
            pairs = ", ".join(
                f"{key} {self.encoder.get(key)!r} against {encoder.get(key)!r}" for key in sorted(differing)
            )
            raise IndexMismatchError(
                f"The index was built with another encoder than it is searched with: {pairs}. "
                "Name the encoder it was built with, or build the index again."
            )


def import_faiss() -> Any:
    """Return the module faiss.

    Raises:
        DependencyNotInstalled: If it is not installed.
    """
    try:
        import faiss
    except ImportError:
        raise missing_extra("faiss", "retriever") from None
    return faiss


def _because(plan: IndexPlan, reason: str) -> IndexPlan:
    return IndexPlan(**{**asdict(plan), "reason": reason})


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB" if num_bytes >= 2**28 else f"{num_bytes / 2**20:.1f} MiB"


def _meminfo(name: str) -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
