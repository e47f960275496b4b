"""Search over a text corpus: BM25, dense and hybrid retrievers, a service and its client."""

if __name__ == "retriever":  # the checkout root is on sys.path: the bare name would load a second copy of every class
    raise ImportError("import agent_envs.retriever, not retriever")

from agent_envs.retriever.base import Hit, IndexMismatchError, Passage, Retriever, RetrieverError
from agent_envs.retriever.factory import RetrieverConfig, make_retriever, register_retriever

__all__ = [
    "Hit",
    "IndexMismatchError",
    "Passage",
    "Retriever",
    "RetrieverConfig",
    "RetrieverError",
    "make_retriever",
    "register_retriever",
]
