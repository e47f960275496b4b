"""The service and its client over real sockets on this machine, and the client against servers of other make."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from agent_envs.retriever import client as client_module
from agent_envs.retriever.base import Passage, RetrieverError
from agent_envs.retriever.client import HTTPRetriever
from agent_envs.retriever.corpus import MemoryCorpus
from agent_envs.retriever.sparse import BM25Retriever

flask = pytest.importorskip("flask", reason="flask is not installed (extra retriever)")

from agent_envs.retriever.server import Limits, create_app  # noqa: E402


@pytest.fixture(autouse=True)
def quick_and_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(client_module, "_PAUSES_S", (0.01,))


@pytest.fixture
def retriever():
    return BM25Retriever(MemoryCorpus(Passage(str(n), f'"Page {n}"\nword{n} common') for n in range(50)))


@pytest.fixture
def web(retriever):
    return create_app(retriever, limits=Limits(max_body_bytes=20_000, max_queries=400), window_s=0.0).test_client()


def ask(web, **body):
    return web.post("/retrieve", json=body)


# ------------------------------------------------------------------ service


def test_official_request_and_answer(web):
    answer = ask(web, queries=["word7", "word8"], topk=1, return_scores=True)
    assert answer.status_code == 200
    (first,), (second,) = answer.json["result"]
    assert first["document"] == {"id": "7", "contents": '"Page 7"\nword7 common'}
    assert isinstance(first["score"], float) and second["document"]["id"] == "8"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_without_scores_the_documents_are_plain(web, count):
    result = ask(web, queries=["common"] * count).json["result"]
    assert len(result) == count and all(len(items) == 3 for items in result)
    assert result[0][0] == {"id": "0", "contents": '"Page 0"\nword0 common'}


def test_single_query_form_null_topk_and_empty_list(web):
    assert len(ask(web, query="common", topk=None, return_scores=True).json["result"][0]) == 3
    assert ask(web, queries=[]).json == {"result": []}
    assert ask(web, queries=["nothing of this kind"]).json == {"result": [[]]}


def test_topk_beyond_the_corpus_and_a_batch_of_400(web):
    assert len(ask(web, queries=["common"], topk=100).json["result"][0]) == 50
    assert len(ask(web, queries=[f"word{n % 50}" for n in range(400)], topk=1).json["result"]) == 400


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{broken", 400, "not JSON"),
        (b"[" * 5_000, 400, "not JSON"),
        (b"[]", 422, "JSON object"),
        (b"{}", 422, "either 'queries'"),
        (b'{"query": "a", "queries": ["a"]}', 422, "either 'queries'"),
        (b'{"queries": "a"}', 422, "list of str"),
        (b'{"queries": [1]}', 422, "list of str"),
        (b'{"query": null}', 422, "list of str"),
        (b'{"queries": ["a", " "]}', 422, "Query 1 is blank"),
        (b'{"queries": ["a"], "topk": 0}', 422, "'topk'"),
        (b'{"queries": ["a"], "topk": 101}', 422, "'topk'"),
        (b'{"queries": ["a"], "topk": "3"}', 422, "'topk'"),
        (b'{"queries": ["a"], "topk": true}', 422, "'topk'"),
        (b'{"queries": ["a"], "return_scores": 1}', 422, "'return_scores'"),
        (json.dumps({"queries": ["a"] * 401}).encode(), 413, "at most 400"),
        (json.dumps({"queries": ["a" * 30_000]}).encode(), 413, ""),
    ],
)
def test_wrong_requests_are_refused_with_a_reason(web, body, status, text):
    answer = web.post("/retrieve", data=body, content_type="application/json")
    assert answer.status_code == status and text in answer.json["error"]


def test_too_long_query_other_addresses_and_methods(retriever):
    web = create_app(retriever, limits=Limits(max_query_chars=10)).test_client()
    assert ask(web, queries=["x" * 11]).status_code == 413
    assert web.get("/nothing").status_code == 404 and web.get("/retrieve").status_code == 405


def test_long_and_odd_queries_are_answered(retriever):
    web = create_app(retriever).test_client()
    for query in ("word3 " * 8_000, "\u6f22\u5b57 \U0001f600 word3", "\ud800 word3", "\x00 word3"):
        assert ask(web, queries=[query], topk=1).json["result"][0][0]["id"] == "3"


def test_health_and_metrics(web):
    health = web.get("/health").json
    assert (health["status"], health["size"], health["model"], len(health["corpus"])) == ("ok", 50, "bm25", 32)
    ask(web, queries=["word1", "word1"]), ask(web, queries=["word1"]), ask(web, queries=[" "])
    lines = web.get("/metrics").text.splitlines()
    assert 'retriever_requests_total{status="422"} 1' in lines
    assert "retriever_queries_total 3" in lines and "retriever_batch_queries_total 1" in lines


def test_a_failing_retriever_gives_500_and_the_service_goes_on():
    class Broken:
        def search(self, queries, topk=3):
            raise RuntimeError("disk gone") if "bad" in queries else RetrieverError("busy")

        def describe(self):
            return {}

        def close(self):
            pass

    web = create_app(Broken()).test_client()
    for _ in range(2):
        answer = ask(web, queries=["bad"])
        assert answer.status_code == 500 and "disk gone" in answer.json["error"]
    assert web.get("/health").status_code == 200


# ------------------------------------------------------------------ client


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers what the test put into ``replies``: (status, body); a body of None closes the connection."""

    protocol_version = "HTTP/1.1"
    replies: list = []
    seen: list = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, json.loads(body), self.client_address[1]))
        status, reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args):
        pass


@pytest.fixture
def canned():
    handler = type("Handler", (Canned,), {"replies": [], "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    client = HTTPRetriever(f"http://127.0.0.1:{server.server_address[1]}", timeout_s=5)
    yield handler, client
    client.close()
    server.shutdown()
    server.server_close()
    thread.join(5)


def body(*result):
    return json.dumps({"result": list(result)}).encode()


DOCUMENT = {"id": "5", "contents": '"T"\nx'}
GOOD = body([{"document": DOCUMENT, "score": 0.83}])


def test_canned_search_r1_answer(canned):
    handler, client = canned
    handler.replies[:] = [(200, body([{"document": DOCUMENT, "score": 0.83}], []))]
    found = client.search(["a", "b"], 2)
    assert [[(hit.id, hit.score, hit.contents) for hit in hits] for hits in found] == [[("5", 0.83, '"T"\nx')], []]
    path, sent, _ = handler.seen[0]
    assert path == "/retrieve" and sent == {"queries": ["a", "b"], "topk": 2, "return_scores": True}


@pytest.mark.parametrize(
    ("item", "hit_id", "contents"),
    [
        (DOCUMENT, "5", '"T"\nx'),
        ({"document": {"id": 9, "title": "T", "text": "x"}, "score": 1}, "9", '"T"\nx'),
        ({"document": {"id": 9, "title": '"T"', "text": "x"}, "score": 1}, "9", '"T"\nx'),
    ],
)
def test_other_documents(canned, item, hit_id, contents):
    handler, client = canned
    handler.replies[:] = [(200, body([item]))]
    (hit,) = client.search(["a"], 1)[0]
    assert (hit.id, hit.contents) == (hit_id, contents)


def test_a_connection_is_kept_and_a_closed_one_is_no_failure(canned):
    handler, client = canned
    handler.replies[:] = [(200, GOOD)]
    client.search(["a"], 1), client.search(["b"], 1)
    assert len({port for _, _, port in handler.seen}) == 1
    for connection in client._open:
        connection.sock.shutdown(2)  # as if the server had closed the idle connection
    assert client.search(["c"], 1)[0][0].id == "5"


@pytest.mark.parametrize("bad", [(500, b"oops"), (503, b"busy"), (200, b"<html>"), (200, b'{"result": 3}'), (0, None)])
def test_a_failure_is_tried_again(canned, bad):
    handler, client = canned
    handler.replies[:] = [bad, (200, GOOD)]
    assert client.search(["a"], 1)[0][0].id == "5"


@pytest.mark.parametrize(
    "reply",
    [
        b"garbage",
        b"{}",
        body(),
        body([1]),
        body("x"),
        body([{"document": {"id": "1"}, "score": 1}]),
        body([{"document": DOCUMENT, "score": "high"}]),
    ],
)
def test_garbage_becomes_an_error_after_three_tries(canned, reply):
    handler, client = canned
    handler.replies[:] = [(200, reply)]
    with pytest.raises(RetrieverError, match="in 3 tries"):
        client.search(["a"], 1)
    assert len(handler.seen) == 3


def test_refusals_are_not_tried_again(canned):
    handler, client = canned
    handler.replies[:] = [(422, b'{"error": "topk"}')]
    with pytest.raises(RetrieverError, match="refused the request with 422.*topk"):
        client.search(["a"], 1)
    assert len(handler.seen) == 1


def test_more_hits_than_asked_are_cut_and_large_batches_split(canned, monkeypatch):
    handler, client = canned
    handler.replies[:] = [(200, body([DOCUMENT] * 5))]
    assert len(client.search(["a"], 2)[0]) == 2
    monkeypatch.setattr(client_module, "_MAX_QUERIES", 1)
    assert len(client.search(["a", "b"], 2)) == 2 and len(handler.seen) == 3


def test_a_dead_server_and_failover(canned):
    handler, client = canned
    handler.replies[:] = [(200, GOOD)]
    alive = client._urls[0].geturl()
    both = HTTPRetriever(["http://127.0.0.1:9", alive], timeout_s=5)
    assert [both.search(["a"], 1)[0][0].id for _ in range(3)] == ["5"] * 3
    with pytest.raises(RetrieverError, match="agent-envs retriever serve"):
        HTTPRetriever("http://127.0.0.1:9", timeout_s=1).search(["a"], 1)
    both.close()


def test_a_slow_server_is_an_error(canned, monkeypatch):
    handler, client = canned
    monkeypatch.setattr(handler, "do_POST", lambda self: time.sleep(1))
    slow = HTTPRetriever(client._urls[0].geturl(), timeout_s=0.05, tries=1)
    with pytest.raises(RetrieverError, match="in 1 tries"):
        slow.search(["a"], 1)
    slow.close()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", ""])
def test_wrong_addresses(url):
    with pytest.raises(ValueError, match="must look like"):
        HTTPRetriever(url)
    with pytest.raises(ValueError, match="at least one server"):
        HTTPRetriever([])


# ------------------------------------------------------------------ process


@pytest.fixture
def process(tmp_path):
    pytest.importorskip("waitress", reason="waitress is not installed (extra retriever)")
    command = [sys.executable, "-m", "agent_envs", "retriever", "serve", "--corpus", "factbook", "--port", "0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    line = ""
    while "serving on" not in line:
        line = child.stdout.readline()
        assert line, child.stderr.read()
    yield child, line.split("serving on ")[1].strip()
    if child.poll() is None:
        child.kill()
    child.communicate()


@pytest.mark.service
@pytest.mark.slow
def test_32_clients_then_a_graceful_end(process):
    child, url = process
    client = HTTPRetriever(url)
    assert client.describe()["retriever"] == "bm25" and url.startswith("http://127.0.0.1:")
    results = []

    def work(number):
        results.extend(client.search([f"government capital of Fiji q{number}x{turn}"], 1)[0][0].id for turn in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["factbook:fj:government"] * 160
    client.close()
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=30) == 0 and "stopped" in child.stderr.read()


@pytest.mark.service
@pytest.mark.slow
def test_a_killed_server_is_a_clean_error(process):
    child, url = process
    client = HTTPRetriever(url, timeout_s=2)
    assert client.search(["Fiji"], 1)
    child.kill()
    child.wait()
    with pytest.raises(RetrieverError, match="did not answer"):
        client.search(["Fiji"], 1)
    client.close()
