"""Serve, build and query a passage retriever."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

EXAMPLES = """examples:
  agent-envs retriever query "capital of Fiji"                             BM25 over the built-in corpus
  agent-envs retriever serve                                               the same as a service on 127.0.0.1:8000
  agent-envs retriever build --corpus wiki-18.jsonl --out index --encoder intfloat/e5-base-v2
  agent-envs retriever serve --corpus wiki-18.jsonl --index index --encoder intfloat/e5-base-v2
  agent-envs retriever query "capital of Fiji" --url http://127.0.0.1:8000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    serve = actions.add_parser("serve", help="run the retrieval service (Search-R1's API)")
    _add_source(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address to bind (default: this machine only)")
    serve.add_argument("--port", type=int, default=8000, help="port (default 8000, 0 for a free one)")
    serve.add_argument("--threads", type=int, default=64, help="requests handled at once (default 64)")
    serve.set_defaults(run_action=_serve)
    build = actions.add_parser("build", help="encode a corpus and write a dense index")
    _add_corpus(build)
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="index folder to write")
    build.add_argument("--kind", default="auto", help="auto, flat, fp16, sq8, ivf, ivf_sq8, ivf_pq or hnsw")
    build.add_argument("--batch-size", type=int, default=32, help="passages encoded at once (default 32)")
    build.add_argument("--device", default="cpu", help="torch device of the encoder (default cpu)")
    build.add_argument("--max-passage-tokens", type=int, default=512, help="passages are cut here (default 512)")
    build.add_argument("--keep-vectors", action="store_true", help="keep the float16 vectors beside the index")
    build.set_defaults(run_action=_build)
    query = actions.add_parser("query", help="print the passages found for a query")
    query.add_argument("query", metavar="QUERY")
    _add_source(query)
    query.add_argument("--url", help="ask a running service instead")
    query.add_argument("--topk", type=int, default=3, help="passages to print (default 3)")
    query.add_argument("--json", action="store_true", help="one JSON object per passage")
    query.set_defaults(run_action=_query)


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", default="auto", help="auto, factbook, wiki or a JSON-lines file (default auto)")
    parser.add_argument("--encoder", metavar="MODEL", help="name or folder of a model (default: the embedded E5)")


def _add_source(parser: argparse.ArgumentParser) -> None:
    _add_corpus(parser)
    parser.add_argument("--kind", default="auto", help="auto, bm25, dense or hybrid (default: dense with --index)")
    parser.add_argument("--index", metavar="DIR", help="folder of a dense index")


def run(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    return int(args.run_action(args))


def _open(args: argparse.Namespace) -> Any:
    from agent_envs.envs.search_qa.tasks import get_corpus, resolve_corpus
    from agent_envs.retriever.factory import RetrieverConfig, as_urls, make_retriever

    urls = as_urls(getattr(args, "url", None))
    config = RetrieverConfig(kind=args.kind, index=args.index, encoder=args.encoder, urls=urls)
    return make_retriever(config, None if urls else get_corpus(resolve_corpus(args.corpus)))


def _serve(args: argparse.Namespace) -> int:
    from agent_envs.retriever.server import serve

    retriever = _open(args)
    print(json.dumps(retriever.describe()), flush=True)
    try:
        serve(retriever, host=args.host, port=args.port, threads=args.threads)
    except OSError as error:
        raise ValueError(f"Cannot serve on {args.host}:{args.port}: {error}. Choose another --port.") from None
    return 0


def _build(args: argparse.Namespace) -> int:
    from agent_envs.envs.search_qa.tasks import get_corpus, resolve_corpus
    from agent_envs.retriever.build import build_index
    from agent_envs.retriever.encoder import E5Encoder
    from agent_envs.retriever.index import choose_index, free_memory

    corpus = get_corpus(resolve_corpus(args.corpus))
    encoder = E5Encoder(
        args.encoder, batch_size=args.batch_size, device=args.device, max_passage_tokens=args.max_passage_tokens
    )
    if args.kind == "auto":
        print(choose_index(len(corpus), encoder.dim, free_memory()).reason)
    started = time.perf_counter()
    meta = build_index(corpus, encoder, args.out, kind=args.kind, keep_vectors=args.keep_vectors, progress=True)
    print(
        f"{args.out}: {meta.factory}, {meta.size:,} vectors of {encoder.dim}, {meta.file_bytes / 2**20:.1f} MiB, "
        f"{time.perf_counter() - started:.1f} s"
    )
    return 0


def _query(args: argparse.Namespace) -> int:
    retriever = _open(args)
    try:
        hits = retriever.search([args.query], args.topk)[0]
    finally:
        retriever.close()
    for number, hit in enumerate(hits, 1):
        if args.json:
            print(json.dumps({"id": hit.id, "score": hit.score, "contents": hit.contents}, ensure_ascii=False))
        else:
            print(f"{number}. {hit.id} (score {hit.score:.4f})\n{hit.contents}\n")
    if not hits:
        print("no passage found")
    return 0 if hits else 1
