"""A question with its answers, and the split of questions such that no page is gold in two splits."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_envs.keys import digest

SPLIT_SHARES = (("train", 80), ("dev", 10), ("test", 10))
"""Name and percent of each split of built-in questions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One task."""

    id: str
    """Unique within its source."""
    source: str
    """Name of the data set; scores are reported per source."""
    text: str
    answers: tuple[str, ...]
    """All accepted answers, the preferred one first."""
    num_hops: int = 0
    """1 or 2 facts to look up, 0 if not known."""
    gold: tuple[str, ...] = ()
    """Ids of the passages that hold the facts, in the order of the hops; empty if not known."""
    queries: tuple[str, ...] = ()
    """A query that finds each gold passage; empty if not known."""

    def __post_init__(self) -> None:
        """Check what every question needs."""
        if not self.text.strip() or not self.answers or not all(answer.strip() for answer in self.answers):
            raise ValueError(f"A question needs a text and answers that are not blank, got {self!r}.")


def with_plain_forms(answers: Iterable[str]) -> tuple[str, ...]:
    """Return the answers, each followed by its form without accents where that differs, without repeats."""
    found: dict[str, None] = {}
    for answer in answers:
        found[answer] = None
        letters = unicodedata.normalize("NFKD", answer)
        found["".join(letter for letter in letters if not unicodedata.combining(letter))] = None
    return tuple(found)


def keep_unambiguous(questions: Sequence[Question]) -> list[Question]:
    """Drop every question whose text occurs more than once: the text does not say which entity is meant."""
    count = Counter(question.text.casefold() for question in questions)
    return [question for question in questions if count[question.text.casefold()] == 1]


def split_by_page(questions: Sequence[Question], links: Iterable[tuple[str, str]] = ()) -> dict[str, list[Question]]:
    """Split questions so that all that share a page, directly or through other questions, stay together.

    A page is a gold passage without its topic: all passages of one Factbook profile are one page. Each connected set of
    pages goes to the split that the digest of its smallest page decides; the order within a split is that of digests.

    Args:
        questions: Questions with gold passages.
        links: Pairs of pages that state the same facts and so must stay together, too.
    """
    leader: dict[str, str] = {}

    def find(page: str) -> str:
        while leader.setdefault(page, page) != page:
            leader[page] = page = leader[leader[page]]
        return page

    pairs = [(question.gold[0], other) for question in questions for other in question.gold[1:]]
    for one, other in [*pairs, *links]:
        low, high = sorted((find(page_of(one)), find(page_of(other))))
        leader[high] = low
    splits: dict[str, list[Question]] = {name: [] for name, _ in SPLIT_SHARES}
    for question in questions:
        place = int(digest(f"split {find(page_of(question.gold[0]))}", size=8), 16) % 100
        for name, share in SPLIT_SHARES:
            if place < share:
                splits[name].append(question)
                break
            place -= share
    for part in splits.values():
        part.sort(key=lambda question: digest(f"order {question.source} {question.id}"))
    return splits


def page_of(passage_id: str) -> str:
    """Return the page of a passage of the built-in corpora: ``factbook:fr:economy`` lies on ``factbook:fr``."""
    return passage_id.rpartition(":")[0] if passage_id.startswith("factbook:") else passage_id
