"""Corpora: the wiki-18 format in memory and memory-mapped, damaged files, titles."""

import json

import pytest

from agent_envs.retriever import corpus as corpus_module
from agent_envs.retriever.base import Passage, check_request
from agent_envs.retriever.corpus import JsonlCorpus, MemoryCorpus, iterate, load_corpus


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(path, *lines, end="\n"):
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)
    return path


OFFICIAL = {"id": "0", "contents": '"Evan Morris"\nEvan Morris Evan L. Morris (January 26, 1977 \u2026'}
PLAIN = {"id": 1, "contents": "No quotes here\ntext"}
PARTS = {"id": "2", "title": "Mars", "text": "A planet.", "extra": [1]}


@pytest.mark.parametrize("kind", [load_corpus, JsonlCorpus])
@pytest.mark.parametrize("end", ["\n", ""])
def test_rows_ids_and_titles(tmp_path, kind, end):
    corpus = kind(write(tmp_path / "c.jsonl", OFFICIAL, PLAIN, PARTS, end=end))
    assert len(corpus) == 3
    assert [passage.id for passage in iterate(corpus)] == ["0", "1", "2"]
    assert [corpus[row].title for row in range(3)] == ["Evan Morris", "No quotes here", "Mars"]
    assert corpus[2].contents == '"Mars"\nA planet.'
    assert [passage.id for passage in iterate(corpus, 2)] == ["2"]


def test_both_kinds_have_the_digest_of_the_file(tmp_path):
    path = write(tmp_path / "c.jsonl", OFFICIAL, PLAIN)
    assert load_corpus(path).digest == JsonlCorpus(path).digest
    other = write(tmp_path / "d.jsonl", PLAIN, OFFICIAL)
    assert load_corpus(other).digest != load_corpus(path).digest


def test_mapped_corpus_uses_its_table_again_and_notices_a_change(tmp_path, monkeypatch):
    path = write(tmp_path / "c.jsonl", OFFICIAL, PLAIN)
    first = JsonlCorpus(path)
    scans = []
    scan = corpus_module._scan_lines
    monkeypatch.setattr(corpus_module, "_scan_lines", lambda file: scans.append(file) or scan(file))
    assert JsonlCorpus(path).digest == first.digest and not scans
    write(path, OFFICIAL, PLAIN, PARTS)
    assert len(JsonlCorpus(path)) == 3 and scans == [path]


def test_a_damaged_table_is_made_again(tmp_path):
    path = write(tmp_path / "c.jsonl", OFFICIAL, PLAIN)
    JsonlCorpus(path)
    (table,) = (tmp_path / "cache" / "agent_envs").glob("corpus-*/starts.npy")
    table.write_bytes(table.read_bytes()[:-4])
    assert len(JsonlCorpus(path)) == 2


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{broken", "line 2 is not JSON"),
        ("[]", "line 2 has no id"),
        ({"contents": "x"}, "line 2 has no id"),
        ({"id": "x"}, "line 2 has neither contents nor text"),
        ({"id": "0", "contents": "twice"}, "'0' is in rows 0 and 1"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, text):
    path = write(tmp_path / "c.jsonl", OFFICIAL, line)
    with pytest.raises(ValueError, match=text):
        load_corpus(path)
    if "rows" not in text:  # a mapped corpus reads a line when it is asked for
        mapped = JsonlCorpus(path)
        assert mapped[0].id == "0"
        with pytest.raises(ValueError, match=text):
            mapped[1]


def test_files_that_are_no_corpus(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        load_corpus(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ValueError, match="is empty"):
        load_corpus(tmp_path / "empty.jsonl")
    with pytest.raises(ValueError, match="gunzip"):
        load_corpus(write(tmp_path / "c.jsonl.gz", OFFICIAL))
    with pytest.raises(ValueError, match="at least one passage"):
        MemoryCorpus([])
    with pytest.raises(IndexError, match=r"\[0, 1\), got 1"):
        JsonlCorpus(write(tmp_path / "c.jsonl", OFFICIAL))[1]


def test_find_by_id():
    corpus = MemoryCorpus([Passage("a", "x"), Passage("b", "y")])
    assert corpus.find("b").contents == "y"
    with pytest.raises(KeyError):
        corpus.find("c")


@pytest.mark.parametrize(
    ("queries", "topk", "error", "text"),
    [
        ("one", 3, TypeError, "list of str"),
        (["a", 1], 3, TypeError, "Query 1 must be a str"),
        (["a", " \n"], 3, ValueError, "Query 1 is blank"),
        (["a"], 0, ValueError, "got 0"),
        (["a"], 101, ValueError, "got 101"),
        (["a"], True, TypeError, "topk must be an int"),
        (["a"], 1.0, TypeError, "topk must be an int"),
    ],
)
def test_requests_are_checked(queries, topk, error, text):
    with pytest.raises(error, match=text):
        check_request(queries, topk)


def test_lone_surrogates_are_replaced():
    assert check_request([" a\ud800b "], 1) == ["a?b"]
