"""``agent-envs retriever``: queries and builds; the service is tested in test_service.py."""

import json

import pytest

from agent_envs.cli import main


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_query_prints_passages(tmp_path, capsys):
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"id": "a", "contents": "\\"Moon\\"\\ncheese"}\n{"id": "b", "contents": "\\"Sun\\"\\nfire"}\n')
    assert main(["retriever", "query", "cheese", "--corpus", str(corpus), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "a"
    assert main(["retriever", "query", "water", "--corpus", str(corpus)]) == 1
    assert "no passage found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["query", " ", "--corpus", "factbook"], "is blank"),
        (["query", "x", "--corpus", "factbook", "--topk", "0"], "topk must be in"),
        (["query", "x", "--corpus", "nowhere.jsonl"], "No corpus file nowhere.jsonl"),
        (["query", "x", "--corpus", "factbook", "--kind", "bm52"], "Did you mean 'bm25'"),
        (["query", "x", "--url", "localhost:1"], "must look like"),
    ],
)
def test_wrong_arguments_are_one_line(capsys, arguments, text):
    assert main(["retriever", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error and "Traceback" not in error


def test_f4_a_missing_index_says_how_to_build_it(tmp_path, capsys):
    pytest.importorskip("faiss", reason="faiss is not installed (extra retriever)")
    assert main(["retriever", "query", "x", "--corpus", "factbook", "--index", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "none") in error and "agent-envs retriever build" in error and "bm25" in error
