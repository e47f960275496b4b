"""The fuzzy text comparison of the reward, equal to thefuzz 0.22's ``token_set_ratio``."""

import functools

# Characters 128-255 are deleted; two capitals are lowered one by one, where Python looks at the word or writes two
# signs.
_DROP: dict[int, str | None] = {**dict.fromkeys(range(128, 256)), 0x130: "i", 0x3A3: "\u03c3"}
MATCH_ABOVE = 85  # a ratio must exceed this to count as a match


def _tokens(text: str) -> frozenset[str]:
    """Return the distinct words: characters 128-255 deleted, all but letters and digits to blanks, lower case."""
    text = text.translate(_DROP).lower()
    return frozenset("".join(sign if sign.isalnum() else " " for sign in text).split())


def _common(a: str, b: str) -> int:
    """Return the length of the longest common subsequence, by bit-parallel dynamic programming (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, sign in enumerate(a):
        places[sign] = places.get(sign, 0) | 1 << place
    open_bits = full = (1 << len(a)) - 1
    for sign in b:
        matched = open_bits & places.get(sign, 0)
        open_bits = (open_bits + matched | open_bits - matched) & full
    return len(a) - open_bits.bit_count()


def _ratio(a: str, b: str, shared: int) -> float:
    """Return the similarity in percent of two texts that stand behind the same ``shared`` leading characters."""
    return _percent(len(a) + len(b) - 2 * _common(a, b), len(a) + len(b) + 2 * shared)


def _percent(distance: int, total: int) -> float:
    return 100.0 - 100.0 * distance / total  # in this order of operations, so that halves round as in thefuzz


@functools.lru_cache(maxsize=1 << 14)
def token_set_ratio(a: str, b: str) -> int:
    """Return the similarity of two texts as sets of words, 0 to 100.

    100 if one set holds the other; 0 if either is empty. Else the best of three comparisons of sorted words: the words
    of only one side against those of the other, each behind the common words, and the common words against each side.
    """
    words_a, words_b = _tokens(a), _tokens(b)
    if not words_a or not words_b:
        return 0
    both = " ".join(sorted(words_a & words_b))
    only_a, only_b = " ".join(sorted(words_a - words_b)), " ".join(sorted(words_b - words_a))
    if both and not (only_a and only_b):
        return 100
    if not both:
        return round(_ratio(only_a, only_b, 0))
    shared = len(both) + 1  # the blank behind the common words is common as well
    best = _ratio(only_a, only_b, shared)
    for only in (only_a, only_b):
        best = max(best, _percent(len(only) + 1, 2 * len(both) + 1 + len(only)))
    return round(best)


def matches(a: str, b: str) -> bool:
    """Tell whether two texts count as the same attribute or option."""
    return token_set_ratio(a, b) > MATCH_ABOVE
