"""Sharing a retriever: merged calls, dropped repeats, remembered answers, errors for every caller; the registry."""

import threading
import time

import pytest

from agent_envs.retriever.base import Hit, RetrieverError
from agent_envs.retriever.batching import BatchingRetriever
from agent_envs.retriever.factory import RetrieverConfig, make_retriever, register_retriever, shared_retriever


class Recorder:
    """Answers each query with itself; the first call waits for the gate."""

    def __init__(self):
        self.calls = []
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False

    def search(self, queries, topk=3):
        self.calls.append((list(queries), topk))
        self.gate.wait(10)
        if "bad" in queries:
            raise ValueError("the index is broken")
        return [[Hit(f"{query}-{number}", 1.0 / (number + 1), query) for number in range(topk)] for query in queries]

    def describe(self):
        return {"retriever": "recorder"}

    def close(self):
        self.closed = True


@pytest.fixture
def pair():
    inner = Recorder()
    batching = BatchingRetriever(inner, cache_size=4)
    yield inner, batching
    inner.gate.set()
    batching.close()


def in_threads(calls):
    results = [None] * len(calls)

    def run(place, call):
        try:
            results[place] = call()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    return threads, results


def wait_until(condition):
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    assert condition()


def test_repeats_are_asked_once_and_answers_keep_their_order(pair):
    inner, batching = pair
    found = batching.search(["b", "a", "b"], 2)
    assert [[hit.id for hit in hits] for hits in found] == [["b-0", "b-1"], ["a-0", "a-1"], ["b-0", "b-1"]]
    assert inner.calls == [(["b", "a"], 2)]


def test_answers_are_remembered_per_topk_and_the_oldest_forgotten(pair):
    inner, batching = pair
    batching.search(["a"], 1), batching.search(["a"], 1), batching.search(["a"], 2)
    assert [topk for _, topk in inner.calls] == [1, 2]
    batching.search(["b", "c", "d"], 1)
    batching.search(["a"], 1)
    assert inner.calls[-1] == (["a"], 1) and len(inner.calls) == 4
    assert batching.statistics.cached == 1 and batching.statistics.queries == 7


def test_callers_cannot_change_what_is_remembered(pair):
    _, batching = pair
    batching.search(["a"], 1)[0].clear()
    assert len(batching.search(["a"], 1)[0]) == 1


def test_waiting_searches_go_together(pair):
    inner, batching = pair
    inner.gate.clear()
    threads, results = in_threads([lambda: batching.search(["first"], 1)])
    wait_until(lambda: inner.calls)
    more, others = in_threads([lambda n=n: batching.search([f"q{n % 10}"], 1) for n in range(40)])
    wait_until(lambda: batching._jobs.qsize() == 40)
    inner.gate.set()
    for thread in [*threads, *more]:
        thread.join(10)
    assert len(inner.calls) == 2 and sorted(inner.calls[1][0]) == [f"q{n}" for n in range(10)]
    assert [result[0][0].id for result in others] == [f"q{n % 10}-0" for n in range(40)]
    assert results[0][0][0].id == "first-0"


def test_every_caller_hears_of_an_error_and_the_next_search_works(pair):
    inner, batching = pair
    inner.gate.clear()
    threads, results = in_threads([lambda: batching.search(["bad"], 1)])
    wait_until(lambda: inner.calls)
    inner.gate.set()
    threads[0].join(10)
    assert isinstance(results[0], RetrieverError) and "the index is broken" in str(results[0])
    assert batching.search(["a"], 1)[0][0].id == "a-0"
    with pytest.raises(RetrieverError):  # errors are not remembered, the query is asked again
        batching.search(["bad"], 1)
    assert sum("bad" in queries for queries, _ in inner.calls) == 2


def test_requests_are_checked_before_they_wait(pair):
    inner, batching = pair
    with pytest.raises(ValueError, match="is blank"):
        batching.search([" "])
    assert not inner.calls and batching.search([], 3) == []


def test_large_batches_are_cut():
    inner = Recorder()
    batching = BatchingRetriever(inner, max_batch=3)
    assert len(batching.search([f"q{n}" for n in range(8)], 1)) == 8
    assert [len(queries) for queries, _ in inner.calls] == [3, 3, 2]
    batching.close()
    assert inner.closed


def test_a_closed_one_starts_again():
    inner = Recorder()
    batching = BatchingRetriever(inner)
    batching.search(["a"], 1)
    batching.close()
    assert batching.search(["b"], 1)[0][0].id == "b-0"
    batching.close()


def test_registry_and_sharing():
    register_retriever("recorder_a", lambda corpus: Recorder())
    config = RetrieverConfig(kind="recorder_a")
    assert make_retriever(config, None).describe() == {"retriever": "recorder"}
    assert shared_retriever(config, None) is shared_retriever(RetrieverConfig(kind="recorder_a"), None)
    with pytest.raises(ValueError, match="registered already"):
        register_retriever("recorder_a", lambda corpus: Recorder())
    with pytest.raises(ValueError, match="registered already"):
        register_retriever("bm25", lambda corpus: Recorder())
    with pytest.raises(ValueError, match="needs a corpus"):
        make_retriever(RetrieverConfig(), None)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (RetrieverConfig(), "bm25"),
        (RetrieverConfig(index="x"), "dense"),
        (RetrieverConfig(urls=("http://a",)), "http"),
        (RetrieverConfig(urls=("http://a",), index="x"), "http"),
        (RetrieverConfig(kind="hybrid", index="x"), "hybrid"),
    ],
)
def test_order_of_choice(config, kind):
    assert config.resolve() == kind
