"""BM25 index: score and order by hand, memory-mapped storage, the analyser's table."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from agent_envs.retriever.analysis import analyse, split_words
from agent_envs.retriever.bm25 import BM25Index, stored_length
from agent_envs.retriever.porter import stem

TEXTS = {"b": "red shoe red", "a": "red shoe", "c": "blue shoe with red laces", "d": "the of and"}


def index() -> BM25Index:
    return BM25Index(list(TEXTS), TEXTS.values())


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("women's shoes", "women shoe"),
        ("WOMEN\u2019S t-shirt", "women t shirt"),
        ("12 oz (pack of 1)", "12 oz pack 1"),
        ("5 | 6 mint/green", "5 6 mint green"),
        ("wireless-bluetooth e.g. u.s.a. 3.5mm it's", "wireless bluetooth e.g u.s.a 3.5mm"),
        ("1,000 3;5 1.2.3 a,b", "1,000 3;5 1.2.3 b"),
        ("© ™ ★", "© ™ ★"),
        ("½ ²", ""),
        ("日本製 タオルA", "日 本 製 タオル"),
        ("漆黒の夜", "漆 黒 の 夜"),
        ("usb_c __ _", "usb_c"),
        ("Chloe\u0301's", "chloe\u0301"),
        ("👩\u200d👧 🇫🇷🇩🇪", "👩\u200d👧 🇫🇷 🇩🇪"),
        ("ΟΔΟΣ", "οδοσ"),
    ],
)
def test_analyser(text: str, terms: str) -> None:
    assert analyse(text) == terms.split()


def test_ascii_and_unicode_paths_agree() -> None:
    signs = "ab1Z '._,;:-/&\"_\t"
    rng = random.Random(3)
    for _ in range(300):
        text = "".join(rng.choice(signs) for _ in range(20))
        assert analyse(text) == analyse(text + " é")[:-1]


def test_long_words_are_cut_as_lucene_does() -> None:
    assert [len(word) for word in split_words("x" * 600)] == [255, 255, 90]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("trekking", "trek"),
        ("technology", "technolog"),
        ("geology", "geologi"),
        ("assembly", "assembl"),
        ("rolls", "roll"),
        ("controlling", "control"),
        ("is", "is"),
        ("日本", "日本"),
    ],
)
def test_stem(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(("length", "stored"), [(0, 0), (23, 23), (40, 40), (41, 40), (77, 76), (329, 312)])
def test_stored_length(length: int, stored: int) -> None:
    assert stored_length(length) == stored


def test_score_by_hand() -> None:
    # 3 documents with terms (d has only stop words), 3 + 2 + 4 terms
    k_d = 0.9 * (1 - 0.4 + 0.4 * 3 / 3)
    idf = math.log(1 + (3 - 3 + 0.5) / (3 + 0.5))
    expected = 2 * idf * (1 - 1 / (1 + 2 / k_d))
    assert dict(index().search("red red"))["b"] == pytest.approx(expected, rel=1e-6)


def test_only_documents_with_a_query_term_are_found_best_first() -> None:
    assert [name for name, _ in index().search("red lace")] == ["c", "b", "a"]
    assert index().search("the") == []
    assert index().search("green") == []


def test_equal_scores_are_ordered_by_id_and_cut_at_k() -> None:
    names = [f"n{number}" for number in (7, 10, 3, 1, 2)]
    equal = BM25Index(names, ["same words"] * 5)
    assert [name for name, _ in equal.search("words")] == sorted(names)
    assert [name for name, _ in equal.search("words", 2)] == ["n1", "n10"]


def test_building_in_chunks_gives_the_same_index(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    texts = [" ".join(rng.choices("red blue green shoe lamp desk the".split(), k=rng.randrange(9))) for _ in range(200)]
    names = [str(number) for number in range(200)]
    whole = BM25Index(names, texts)
    monkeypatch.setattr("agent_envs.retriever.bm25._TOKENS_PER_CHUNK", 37)
    parts = BM25Index(names, iter(texts))
    for query in ("red", "blue lamp", "shoe desk green"):
        assert whole.search(query, 50) == parts.search(query, 50)
    assert whole.num_postings == parts.num_postings


@pytest.mark.parametrize("texts", [[], ["", "the"]])
def test_empty_index_finds_nothing(texts: list[str]) -> None:
    assert BM25Index([str(number) for number in range(len(texts))], texts).search("red") == []


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' more than once"):
        BM25Index(["a", "a"], ["x", "y"])
    with pytest.raises(ValueError, match="2 ids and 1 texts"):
        BM25Index(["a", "b"], ["x"])
    with pytest.raises(ValueError, match="k=0"):
        index().search("red", 0)


def test_save_and_load(tmp_path: Path) -> None:
    index().save(tmp_path / "bm25")
    loaded = BM25Index.load(tmp_path / "bm25")
    assert loaded.search("red lace shoe") == index().search("red lace shoe")
    assert isinstance(loaded._rows, np.memmap)
    with pytest.raises(FileExistsError, match="exists already"):
        index().save(tmp_path / "bm25")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bm25"]


def test_missing_and_broken_indexes_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.*BM25Index\(ids, texts\).save"):
        BM25Index.load(tmp_path / "none")
    folder = tmp_path / "bm25"
    index().save(folder)
    whole = (folder / "rows.npy").read_bytes()
    (folder / "rows.npy").write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="no readable BM25 index"):
        BM25Index.load(folder)
    (folder / "rows.npy").write_bytes(whole)
    (folder / "terms.json").write_text(json.dumps(["red"]))
    with pytest.raises(ValueError, match="do not fit"):
        BM25Index.load(folder)


@pytest.mark.slow
def test_stemmer_equals_nltk() -> None:
    porter = pytest.importorskip("nltk.stem.porter")
    reference = porter.PorterStemmer(mode=porter.PorterStemmer.MARTIN_EXTENSIONS)
    rng = random.Random(0)
    endings = (
        "ational izer bli ousli logi alism iveness icate ful ness ance er able ement ion ed ing eed s ies y e".split()
    )
    for _ in range(4_000):
        word = "".join(rng.choices("abcdeilnostuyz", k=rng.randint(1, 6))) + rng.choice(endings)
        assert stem(word) == reference.stem(word, to_lowercase=False), word
