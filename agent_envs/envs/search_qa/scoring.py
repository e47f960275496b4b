"""Answer normalisation and scores: exact match, token F1, containment, and the reward of OTC."""

from __future__ import annotations

import math
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

PUNCTUATION = ("unicode", "ascii")
_ARTICLES = frozenset(("a", "an", "the"))
_CLOSED = frozenset(("yes", "no", "noanswer"))
_ASCII = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=65536)
def normalise(text: str, punctuation: str = "unicode") -> str:
    """Lower the text, remove punctuation, then the words a, an, the, and collapse blanks: the order of SQuAD.

    Args:
        text: An answer.
        punctuation: ``"ascii"`` removes ``string.punctuation`` only, as the evaluation script of SQuAD does;
            ``"unicode"`` also removes all other punctuation and symbols, after NFKC.
    """
    if punctuation == "ascii":
        plain = text.lower().translate(_ASCII)
    else:
        lowered = unicodedata.normalize("NFKC", text).lower()
        plain = "".join(letter for letter in lowered if unicodedata.category(letter)[0] not in "PS")
    return " ".join(word for word in plain.split() if word not in _ARTICLES)


def exact_match(prediction: str, answers: Iterable[str], punctuation: str = "unicode") -> bool:
    """Return whether the normalised prediction equals a normalised answer; an empty one equals none."""
    found = normalise(prediction, punctuation)
    return bool(found) and any(found == normalise(answer, punctuation) for answer in answers)


def contains_answer(prediction: str, answers: Iterable[str], punctuation: str = "unicode") -> bool:
    """Return whether a normalised answer occurs in the normalised prediction; both must not be empty."""
    found = normalise(prediction, punctuation)
    wanted = (normalise(answer, punctuation) for answer in answers)
    return any(answer and answer in found for answer in wanted)


def f1_score(prediction: str, answers: Iterable[str], punctuation: str = "unicode") -> float:
    """Return the best F1 over answers of the normalised words as multisets; yes, no and noanswer match whole only."""
    return max(
        (_f1(normalise(prediction, punctuation), normalise(answer, punctuation)) for answer in answers), default=0.0
    )


def _f1(found: str, wanted: str) -> float:
    if found != wanted and (found in _CLOSED or wanted in _CLOSED):
        return 0.0
    have, need = found.split(), wanted.split()
    common = sum((Counter(have) & Counter(need)).values())
    return 2 * common / (len(have) + len(need)) if common else 0.0


def otc_factor(num_searches: int, smooth: int) -> float:
    """Return ``cos(m pi / (2 m + c))``, the tool reward of OTC-PPO (arXiv 2504.14870): 1 without a search.

    Args:
        num_searches: Searches made, m.
        smooth: The constant c > 0; a larger one lets the reward fall more slowly.
    """
    return math.cos(num_searches * math.pi / (2 * num_searches + smooth))
