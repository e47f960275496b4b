"""Retrievers by name, and one shared instance per process for environments that ask for the same."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from agent_envs.errors import unknown_name
from agent_envs.retriever.base import Retriever
from agent_envs.retriever.batching import BatchingRetriever
from agent_envs.retriever.corpus import Corpus

RetrieverFactory = Callable[[Corpus | None], Retriever]
KINDS = ("bm25", "dense", "hybrid", "http")

_HTTP_WINDOW_S = 0.002
_REGISTRY: dict[str, RetrieverFactory | str] = {}
_SHARED: dict[tuple[object, ...], BatchingRetriever] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrieverConfig:
    """Which retriever, by plain values.

    Raises:
        ValueError: For values that contradict each other.
    """

    kind: str = "auto"
    """``bm25``, ``dense``, ``hybrid``, ``http``, a registered name, or ``auto``: see :meth:`resolve`."""
    urls: tuple[str, ...] = ()
    """Addresses of equal services, for ``http``."""
    timeout_s: float = 60.0
    """Seconds a service may take."""
    index: str | None = None
    """Folder of a dense index."""
    encoder: str | None = None
    """Name or folder of a sentence-transformers model; None for the embedded E5."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.kind not in ("auto", *KINDS, *_REGISTRY):
            raise unknown_name("retriever", self.kind, ("auto", *KINDS, *_REGISTRY))
        if self.urls and self.kind not in ("auto", "http"):
            raise ValueError(f"retriever_url needs retriever='http' or 'auto', got retriever={self.kind!r}.")
        if self.kind == "http" and not self.urls:
            raise ValueError("retriever='http' needs retriever_url=, for example 'http://127.0.0.1:8000/retrieve'.")
        if self.index and self.kind not in ("auto", "dense", "hybrid"):
            raise ValueError(f"index= is for retriever='dense' or 'hybrid', got retriever={self.kind!r}.")

    def resolve(self) -> str:
        """Return the kind: ``auto`` is ``http`` if an address is given, ``dense`` if an index is, else ``bm25``."""
        if self.kind != "auto":
            return self.kind
        return "http" if self.urls else "dense" if self.index else "bm25"


def register_retriever(name: str, factory: RetrieverFactory | str) -> None:
    """Give a retriever of your own a name for ``gym.make("agent_envs/SearchQA-v0", retriever=name)``.

    Args:
        name: The new name.
        factory: A function from the corpus (None if the environment has none) to a retriever, or its dotted path
            ``"module:function"``, which also works in spawned workers.

    Raises:
        ValueError: If the name is taken by another factory.
    """
    if name in ("auto", *KINDS) or _REGISTRY.get(name, factory) != factory:
        raise ValueError(f"Retriever {name!r} is registered already, choose another name.")
    _REGISTRY[name] = factory


def make_retriever(config: RetrieverConfig, corpus: Corpus | None) -> Retriever:
    """Return a new retriever.

    Args:
        config: Which one.
        corpus: The passages; not needed for ``http``.

    Raises:
        ValueError: If the kind needs a corpus and there is none.
        DependencyNotInstalled: For dense kinds without faiss or sentence-transformers.
        FileNotFoundError: If the index is missing.
        IndexMismatchError: If the index was made with another model or corpus.
    """
    kind = config.resolve()
    if kind == "http":
        from agent_envs.retriever.client import HTTPRetriever

        return HTTPRetriever(config.urls, timeout_s=config.timeout_s)
    if kind in _REGISTRY:
        return _registered(kind)(corpus)
    if corpus is None:
        raise ValueError(f"retriever={kind!r} needs a corpus, or pass retriever_url= to use a service.")
    from agent_envs.retriever.sparse import BM25Retriever

    if kind == "bm25":
        return BM25Retriever(corpus)
    from agent_envs.retriever.dense import open_dense
    from agent_envs.retriever.hybrid import HybridRetriever

    dense = open_dense(corpus, index=config.index, model=config.encoder)
    return dense if kind == "dense" else HybridRetriever(BM25Retriever(corpus), dense, corpus)


def shared_retriever(config: RetrieverConfig, corpus: Corpus | None) -> BatchingRetriever:
    """Return the process's retriever for this configuration and corpus, made on first use.

    It merges the searches of all environments that use it and remembers answers. A forked child gets its own.
    """
    kind = config.resolve()
    key = (os.getpid(), config, corpus.digest if corpus is not None else None, id(_REGISTRY.get(kind)))
    with _LOCK:
        if key not in _SHARED:
            window_s = _HTTP_WINDOW_S if kind == "http" else 0.0
            _SHARED[key] = BatchingRetriever(make_retriever(config, corpus), window_s=window_s)
        return _SHARED[key]


def as_urls(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return addresses from one or several; None gives none."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _registered(name: str) -> RetrieverFactory:
    factory = _REGISTRY[name]
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = cast(RetrieverFactory, getattr(importlib.import_module(module), attribute))
    return factory
