"""Figures of the retrievers: recall of gold passages, recall and memory of index kinds, load on the service.

python benchmarks/retriever.py                        the quick parts: BM25 recall, index kinds at 20,000 vectors
python benchmarks/retriever.py recall --kinds bm25,dense,hybrid --questions 300
python benchmarks/retriever.py index --sizes 100000,1000000 --dim 64
python benchmarks/retriever.py load --retriever bm25 --seconds 3
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np


def measure_recall(kinds: list[str], num_questions: int, corpus_name: str) -> None:
    from agent_envs.envs.search_qa.tasks import get_corpus, get_questions
    from agent_envs.retriever.factory import RetrieverConfig, make_retriever

    corpus, questions = get_corpus(corpus_name), get_questions(None, corpus_name).splits["test"][:num_questions]
    print(
        f"recall of the first gold passage, question text as query; of all, oracle queries; {corpus_name}, "
        f"{len(corpus):,} passages, {len(questions)} test questions"
    )
    for kind in kinds:
        retriever = make_retriever(RetrieverConfig(kind=kind), corpus)
        by_text = [[hit.id for hit in hits] for hits in retriever.search([q.text for q in questions], 3)]
        queries = [query for q in questions for query in q.queries]
        wanted = [gold for q in questions for gold in q.gold]
        started = time.perf_counter()
        by_oracle = [[hit.id for hit in hits] for hits in retriever.search(queries, 3)]
        ms = 1000 * (time.perf_counter() - started) / len(queries)
        for hops in (1, 2):
            rows = [i for i, q in enumerate(questions) if q.num_hops == hops]
            at1 = np.mean([by_text[i][:1] == [questions[i].gold[0]] for i in rows])
            at3 = np.mean([questions[i].gold[0] in by_text[i] for i in rows])
            print(f"  {kind:7} {hops} hop  question -> first gold: @1 {at1:.3f} @3 {at3:.3f}  (n={len(rows)})")
        at3 = np.mean([gold in found for gold, found in zip(wanted, by_oracle, strict=True)])
        print(f"  {kind:7} oracle queries -> their gold @3 {at3:.3f} (n={len(queries)}), {ms:.2f} ms per query")


def _clustered(size: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors around centres, as embeddings of text are; uniform ones would make every index look bad."""
    centres = rng.standard_normal((max(16, size // 200), dim), dtype=np.float32)
    vectors = centres[rng.integers(len(centres), size=size)] + 0.5 * rng.standard_normal((size, dim), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def measure_index(sizes: list[int], dim: int, kinds: list[str]) -> None:
    from agent_envs.retriever.build import write_index
    from agent_envs.retriever.index import import_faiss, plan_index

    faiss = import_faiss()
    k, num_queries = 3, 200
    for size in sizes:
        rng = np.random.default_rng(0)
        vectors = _clustered(size, dim, rng).astype(np.float16)
        chosen = vectors[rng.integers(size, size=num_queries)].astype(np.float32)
        queries = chosen + 0.3 / dim**0.5 * rng.standard_normal(chosen.shape, dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        exact = None
        for kind in ["flat", *(kind for kind in kinds if kind != "flat")]:
            plan = plan_index(kind, size, dim)
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                write_index([vectors], plan, dim, Path(folder))
                built = time.perf_counter() - started
                file_bytes = (Path(folder) / "index.faiss").stat().st_size
                index = faiss.read_index(str(Path(folder) / "index.faiss"))
                if plan.nprobe:
                    faiss.extract_index_ivf(index).nprobe = plan.nprobe
                if kind == "hnsw":
                    index.hnsw.efSearch = 128
                started = time.perf_counter()
                rows = index.search(queries, k)[1]
                ms = 1000 * (time.perf_counter() - started) / num_queries
            exact = rows if exact is None else exact
            recall = np.mean([len(set(a) & set(b)) / k for a, b in zip(exact.tolist(), rows.tolist(), strict=True)])
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"  N={size:>9,} d={dim} {plan.factory:16} file {file_bytes / 2**20:8.1f} MiB planned "
                f"{plan.num_bytes / 2**20:8.1f} MiB  recall@3 {recall:.3f}  {ms:7.3f} ms/query  build {built:6.1f} s  "
                f"peak rss {peak:.2f} GiB",
                flush=True,
            )


def _ask(port: int, queries: list[str], until: float, latencies: list[float], failures: Counter[str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    number = 0
    while time.perf_counter() < until:
        body = json.dumps(
            {
                "queries": [f"{queries[number % len(queries)]} {number} {threading.get_ident()}"],
                "topk": 3,
                "return_scores": True,
            }
        )
        number += 1
        started = time.perf_counter()
        try:
            connection.request("POST", "/retrieve", body)
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                failures[str(response.status)] += 1
                continue
        except OSError as error:
            failures[type(error).__name__] += 1
            connection.close()
            continue
        latencies.append(time.perf_counter() - started)


def measure_load(kind: str, seconds: float, clients: list[int]) -> None:
    from agent_envs.envs.search_qa.tasks import get_questions

    queries = [question.text for question in get_questions(None, "factbook").splits["test"]]
    command = [
        sys.executable,
        "-m",
        "agent_envs",
        "retriever",
        "serve",
        "--corpus",
        "factbook",
        "--kind",
        kind,
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = ""
        while "serving on" not in line:
            line = server.stdout.readline()
            if not line:
                raise SystemExit("the service did not start")
        port = int(line.rsplit(":", 1)[1].split("/")[0])
        for number in clients:
            latencies: list[float] = []
            failures: Counter[str] = Counter()
            until = time.perf_counter() + seconds
            threads = [
                threading.Thread(target=_ask, args=(port, queries[i:] + queries[:i], until, latencies, failures))
                for i in range(number)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ms = sorted(1000 * value for value in latencies)
            p99 = statistics.quantiles(ms, n=100)[-1] if len(ms) > 2 else float("nan")
            print(
                f"  {kind} {number:>3} clients, one distinct query per request: {len(ms) / seconds:8.1f} requests/s, "
                f"p50 {statistics.median(ms):7.2f} ms, p99 {p99:7.2f} ms, failures {dict(failures)}"
            )
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for size in (64, 512):
            started, count = time.perf_counter(), 0
            while time.perf_counter() < started + seconds:
                body = json.dumps({"queries": [f"{queries[i % len(queries)]} {size} {count + i}" for i in range(size)]})
                connection.request("POST", "/retrieve", body)
                connection.getresponse().read()
                count += size
            rate = count / (time.perf_counter() - started)
            print(f"  {kind} 1 client, {size} queries per request: {rate:8.1f} queries/s")
    finally:
        server.terminate()
        server.wait(timeout=40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("quick", "recall", "index", "load"), default="quick")
    parser.add_argument("--kinds", default="bm25")
    parser.add_argument("--corpus", default="factbook")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--sizes", default="20000")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--index-kinds", default="fp16,sq8,ivf,ivf_sq8,ivf_pq,hnsw")
    parser.add_argument("--retriever", default="bm25")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", default="1,8,64")
    args = parser.parse_args()
    if args.part in ("quick", "recall"):
        measure_recall(args.kinds.split(","), args.questions, args.corpus)
    if args.part in ("quick", "index"):
        try:
            measure_index([int(size) for size in args.sizes.split(",")], args.dim, args.index_kinds.split(","))
        except ImportError as error:
            print(f"  index kinds skipped: {error}")
    if args.part == "load":
        measure_load(args.retriever, args.seconds, [int(number) for number in args.clients.split(",")])


if __name__ == "__main__":
    main()
