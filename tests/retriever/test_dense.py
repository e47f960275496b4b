"""Dense, sparse and hybrid retrievers on a toy encoder; index kinds, checks of index files, resumed builds."""

import hashlib
import json
import shutil
import sys

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from agent_envs.retriever.base import IndexMismatchError, Passage
from agent_envs.retriever.build import build_index
from agent_envs.retriever.corpus import MemoryCorpus
from agent_envs.retriever.factory import RetrieverConfig, make_retriever
from agent_envs.retriever.index import (
    KINDS,
    IndexTooLargeError,
    check_fits,
    choose_index,
    free_memory,
    num_lists,
    plan_index,
    pq_bytes,
)
from agent_envs.retriever.sparse import BM25Retriever

GIB = 2**30
NAMES = (
    "amber basil cedar delta ember fjord grove heron inlet jetty kayak lemon maple noble ocean pearl quill rye".split()
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason="faiss is not installed (extra retriever)")


class WordEncoder:
    """Sums a fixed random vector per word: an encoder with known neighbours."""

    dim = 256

    def __init__(self, name="words"):
        self.identity = {"model": name, "dim": self.dim, "query_prefix": "", "passage_prefix": ""}
        self.num_passages = 0

    def _vector(self, text):
        total = np.zeros(self.dim)
        for word in text.lower().replace('"', " ").split():
            seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
            total += np.random.default_rng(seed).standard_normal(self.dim)
        return (total / np.linalg.norm(total)).astype(np.float32)

    def encode_queries(self, queries):
        return np.stack([self._vector(text) for text in queries])

    def encode_passages(self, passages):
        self.num_passages += len(passages)
        return self.encode_queries(passages)


def toy_corpus(size=300):
    texts = (f'"{NAMES[i % len(NAMES)]} {i}"\nnote number{i} about {NAMES[i // len(NAMES)]}' for i in range(size))
    return MemoryCorpus(Passage(f"p{i}", text) for i, text in enumerate(texts))


@pytest.fixture
def built(tmp_path, faiss):
    corpus, encoder = toy_corpus(), WordEncoder()
    build_index(corpus, encoder, tmp_path / "index", kind="flat")
    return corpus, encoder, tmp_path / "index"


def dense(*args, **kwargs):
    from agent_envs.retriever.dense import DenseRetriever

    return DenseRetriever(*args, **kwargs)


# ------------------------------------------------------------------ search


def test_flat_equals_brute_force(built):
    corpus, encoder, folder = built
    queries = [f"note number{i} about {NAMES[i % 17]}" for i in range(0, 300, 7)]
    vectors = encoder.encode_passages([corpus[row].contents for row in range(len(corpus))])
    vectors = vectors.astype(np.float16).astype(np.float32)
    scores = encoder.encode_queries(queries) @ vectors.T
    found = dense(corpus, encoder, folder).search(queries, 5)
    for row, hits in zip(scores, found, strict=True):
        best = np.argsort(-row, kind="stable")[:5]
        assert [hit.id for hit in hits] == [f"p{i}" for i in best]
        np.testing.assert_allclose([hit.score for hit in hits], row[best], atol=1e-5)
        assert hits[0].contents == corpus[int(best[0])].contents


@pytest.mark.parametrize("memory_map", [True, False])
@pytest.mark.parametrize(
    "kind", [kind if kind != "ivf_pq" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_every_kind_finds_most_of_what_flat_finds(built, tmp_path, kind, memory_map):
    corpus, encoder, folder = built
    meta = build_index(corpus, encoder, tmp_path / kind, kind=kind)
    assert meta.kind == kind and not (tmp_path / kind / "vectors").exists()
    queries = [f"number{i} about {NAMES[i % 17]}" for i in range(0, 300, 5)]
    exact = dense(corpus, encoder, folder).search(queries, 3)
    found = dense(corpus, encoder, tmp_path / kind, memory_map=memory_map).search(queries, 3)
    pairs = zip(exact, found, strict=True)
    recall = np.mean([len({h.id for h in a} & {h.id for h in b}) / 3 for a, b in pairs])
    assert recall > (0.4 if kind == "ivf_pq" else 0.9)


def test_equal_scores_come_in_the_order_of_rows(tmp_path, faiss):
    corpus = MemoryCorpus(Passage(f"p{i}", "same words") for i in range(5))
    encoder = WordEncoder()
    build_index(corpus, encoder, tmp_path / "index", kind="flat")
    assert [hit.id for hit in dense(corpus, encoder, tmp_path / "index").search(["same"], 9)[0]] == [
        f"p{i}" for i in range(5)
    ]


def test_no_queries_give_no_answers(built):
    assert dense(*built).search([], 3) == []


def test_retrievers_agree_on_gold_in_toy_questions(built):
    corpus, encoder, folder = built
    from agent_envs.retriever.hybrid import HybridRetriever

    sparse, close = BM25Retriever(corpus), dense(corpus, encoder, folder)
    hybrid = HybridRetriever(sparse, close, corpus)
    queries = [f"note number{i}" for i in range(20)]
    for retriever in (sparse, close, hybrid):
        assert [hits[0].id for hits in retriever.search(queries, 3)] == [f"p{i}" for i in range(20)]
        assert retriever.describe()["size"] == 300


def test_hybrid_scores_by_rank(built):
    corpus, encoder, folder = built
    from agent_envs.retriever.hybrid import HybridRetriever

    hits = HybridRetriever(BM25Retriever(corpus), dense(corpus, encoder, folder), corpus).search(["number7"], 2)[0]
    assert hits[0].id == "p7" and hits[0].score == pytest.approx(2 / 61)


def test_bm25_keeps_its_index_and_makes_a_damaged_one_again(tmp_path, monkeypatch):
    corpus = toy_corpus()
    BM25Retriever(corpus)
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr("agent_envs.retriever.sparse._KEEP_FROM", 300)
    first = BM25Retriever(corpus).search(["number5"], 2)
    (folder,) = (tmp_path / "cache" / "agent_envs").glob("bm25-*")
    (folder / "terms.json").write_text("[]")
    assert BM25Retriever(corpus).search(["number5"], 2) == first
    assert first[0][0].id == "p5" and len(BM25Retriever(corpus).search(["note"], 100)[0]) == 100


# ------------------------------------------------------------------ index files


def test_another_encoder_or_corpus_is_refused(built):
    corpus, _, folder = built
    with pytest.raises(IndexMismatchError, match="model 'words' against 'other'"):
        dense(corpus, WordEncoder("other"), folder)
    with pytest.raises(IndexMismatchError, match="over corpus .* of 300 passages"):
        dense(toy_corpus(299), WordEncoder(), folder)


def test_missing_index_says_how_to_build_one(tmp_path, faiss):
    with pytest.raises(FileNotFoundError, match=r"nowhere.*agent-envs retriever build"):
        dense(toy_corpus(), WordEncoder(), tmp_path / "nowhere")
    config = RetrieverConfig(kind="dense", index=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"agent-envs retriever build"):
        make_retriever(config, toy_corpus())


def test_cut_or_foreign_files_are_refused(built):
    corpus, encoder, folder = built
    whole = (folder / "index.faiss").read_bytes()
    (folder / "index.faiss").write_bytes(whole[:-10])
    with pytest.raises(ValueError, match="it was cut off"):
        dense(corpus, encoder, folder)
    (folder / "index.faiss").write_bytes(b"\0" * len(whole))
    with pytest.raises(ValueError, match="cannot be read as a FAISS index"):
        dense(corpus, encoder, folder)
    (folder / "meta.json").write_text("{}")
    with pytest.raises(ValueError, match="no index description"):
        dense(corpus, encoder, folder)


def test_e8_an_index_larger_than_memory_is_refused_before_it_is_read(built, monkeypatch):
    corpus, encoder, folder = built
    monkeypatch.setattr("agent_envs.retriever.index.free_memory", lambda: 10_000)
    with pytest.raises(IndexTooLargeError, match=r"memory_map=True.*ivf_sq8"):
        dense(corpus, encoder, folder, memory_map=False)
    assert dense(corpus, encoder, folder, memory_map=True).search(["number3"], 1)[0][0].id == "p3"


# ------------------------------------------------------------------ building


def test_a_stopped_build_goes_on_and_gives_the_same_index(tmp_path, faiss):
    corpus = toy_corpus()

    class Stops(WordEncoder):
        def encode_passages(self, passages):
            if self.num_passages >= 200:
                raise KeyboardInterrupt
            return super().encode_passages(passages)

    with pytest.raises(KeyboardInterrupt):
        build_index(corpus, Stops(), tmp_path / "a", kind="flat", shard_rows=100)
    assert not (tmp_path / "a" / "meta.json").exists()
    rest = WordEncoder()
    build_index(corpus, rest, tmp_path / "a", kind="flat", shard_rows=100)
    assert rest.num_passages == 100
    build_index(corpus, WordEncoder(), tmp_path / "b", kind="flat", keep_vectors=True)
    assert (tmp_path / "a" / "index.faiss").read_bytes() == (tmp_path / "b" / "index.faiss").read_bytes()
    assert np.load(tmp_path / "b" / "vectors" / "000000.npy").dtype == np.float16


def test_vectors_of_another_encoder_are_not_gone_on_with(tmp_path, faiss):
    build_index(toy_corpus(), WordEncoder(), tmp_path / "a", kind="flat", keep_vectors=True)
    with pytest.raises(FileExistsError, match="holds an index already"):
        build_index(toy_corpus(), WordEncoder(), tmp_path / "a")
    (tmp_path / "a" / "meta.json").unlink()
    with pytest.raises(IndexMismatchError, match="vectors of another"):
        build_index(toy_corpus(), WordEncoder("other"), tmp_path / "a")


def test_description_holds_what_must_match(built):
    meta = json.loads((built[2] / "meta.json").read_text())
    assert meta["encoder"] == WordEncoder().identity and meta["corpus"] == toy_corpus().digest
    assert (meta["size"], meta["kind"], meta["factory"], meta["format"]) == (300, "flat", "Flat", 1)


# ------------------------------------------------------------------ plans


def test_memory_of_wikipedia_as_computed_by_hand():
    size, dim = 21_015_324, 768
    assert plan_index("flat", size, dim).num_bytes == 4 * size * dim == 64_559_075_328
    assert plan_index("fp16", size, dim).num_bytes == 32_279_537_664
    assert plan_index("ivf_sq8", size, dim).factory == "IVF16384,SQ8"
    assert plan_index("ivf_sq8", size, dim).num_bytes / GIB == pytest.approx(15.2, abs=0.1)
    assert plan_index("ivf_pq", size, dim).factory == "IVF16384,PQ96"


@pytest.mark.parametrize(
    ("size", "free_gib", "kind"),
    [
        (10_000, 8, "flat"),
        (21_015_324, 256, "ivf"),
        (21_015_324, 64, "ivf_sq8"),
        (21_015_324, 8, "ivf_pq"),
        (21_015_324, 1, "ivf_pq"),
    ],
)
def test_choice_fits_the_memory_and_says_why(size, free_gib, kind):
    plan = choose_index(size, 768, free_gib * GIB)
    assert plan.kind == kind and f"{size:,} vectors" in plan.reason
    assert plan.num_bytes <= free_gib * GIB / 2 or "memory-mapped" in plan.reason


def test_lists_have_enough_vectors_to_train_on():
    assert [num_lists(size) for size in (10, 1_000, 100_000, 1_000_000, 21_015_324)] == [1, 25, 1024, 4096, 16384]
    assert (pq_bytes(768), pq_bytes(384), pq_bytes(7)) == (96, 48, 1)


def test_limits_and_wrong_kinds():
    check_fits(10, what="x", available_bytes=11)
    with pytest.raises(IndexTooLargeError, match="x needs 1.0 GiB, 0.5 GiB"):
        check_fits(GIB, what="x", available_bytes=GIB // 2)
    with pytest.raises(ValueError, match="Did you mean 'ivf_sq8'"):
        plan_index("ivf_sq9", 10, 10)
    assert 0 < free_memory() < 2**50


def test_a_large_corpus_is_not_embedded_on_the_way(faiss, monkeypatch):
    monkeypatch.setattr("agent_envs.retriever.dense._EMBED_AT_ONCE", 10)
    with pytest.raises(ValueError, match="300 passages is not embedded on the way"):
        make_retriever(RetrieverConfig(kind="dense"), toy_corpus())


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(
        DependencyNotInstalled, match=r'faiss is not installed, run pip install "agent-envs\[retriever\]"'
    ):
        make_retriever(RetrieverConfig(kind="dense"), toy_corpus())


def test_folders_stay_clean(built):
    corpus, encoder, folder = built
    assert sorted(path.name for path in folder.iterdir()) == ["index.faiss", "meta.json"]
    shutil.rmtree(folder)
