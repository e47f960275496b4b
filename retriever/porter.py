"""Porter's suffix stripper in the version that Lucene's ``PorterStemFilter`` applies.

Source: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, with the two later changes of its author
(``bli -> ble`` for ``abli -> able``, and the rule ``logi -> log``). Words of one or two characters are returned as they
are. This is not the Snowball stemmer called "porter", which differs on *technology*, *assembly* and *trekking*.
"""

from collections.abc import Iterable, Mapping

_Rules = Mapping[str, tuple[tuple[str, str], ...]]


def _by_last_letter(rules: Iterable[tuple[str, str]]) -> _Rules:
    """Sort rules by the suffix's last letter, so that most words meet none or few."""
    sorted_rules: dict[str, tuple[tuple[str, str], ...]] = {}
    for suffix, replacement in rules:
        sorted_rules[suffix[-1]] = (*sorted_rules.get(suffix[-1], ()), (suffix, replacement))
    return sorted_rules


# (suffix, replacement) of steps 2 and 3; a rule applies if a vowel-consonant sequence stands before the suffix. The
# first suffix that fits ends the step, whether it applies or not; where one suffix ends in another the longer comes
# first.
_STEP_2 = _by_last_letter(
    (
        ("ational", "ate"),
        ("tional", "tion"),
        ("enci", "ence"),
        ("anci", "ance"),
        ("izer", "ize"),
        ("bli", "ble"),
        ("alli", "al"),
        ("entli", "ent"),
        ("eli", "e"),
        ("ousli", "ous"),
        ("ization", "ize"),
        ("ation", "ate"),
        ("ator", "ate"),
        ("alism", "al"),
        ("iveness", "ive"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("aliti", "al"),
        ("iviti", "ive"),
        ("biliti", "ble"),
        ("logi", "log"),
    )
)
_STEP_3 = _by_last_letter(
    (("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""))
)
# Suffixes of step 4, which vanish; "ion" needs the s or t before it, which stays.
_STEP_4 = _by_last_letter(
    (suffix, "")
    for suffix in "al ance ence er ic able ible ant ement ment ent sion tion ou ism ate iti ous ive ize".split()
)


def stem(word: str) -> str:
    """Return the stem of a lower-case word.

    Letters outside a-z count as consonants, as in Lucene.
    """
    if len(word) <= 2:
        return word
    word = _step_1(word)
    if word[-1] == "y" and "v" in _pattern(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2)
    word = _replace(word, _STEP_3)
    word = _step_4(word)
    return _step_5(word)


def _pattern(text: str) -> str:
    """Write each letter as ``c`` (consonant) or ``v`` (vowel); ``y`` is a vowel after a consonant."""
    out = ""
    for letter in text:
        if letter == "y":
            out += "v" if out.endswith("c") else "c"
        else:
            out += "v" if letter in "aeiou" else "c"
    return out


def _measure(text: str) -> int:
    """Count the vowel-consonant sequences, Porter's *m*."""
    return _pattern(text).count("vc")


def _ends_in_double_consonant(text: str) -> bool:
    return len(text) > 1 and text[-1] == text[-2] and _pattern(text)[-1] == "c"


def _ends_in_cvc(text: str) -> bool:
    """Tell whether the text ends consonant, vowel, consonant other than w, x, y: a stem that may have lost an e."""
    return _pattern(text)[-3:] == "cvc" and text[-1] not in "wxy"


def _step_1(word: str) -> str:
    """Strip plurals, -ed and -ing."""
    if word[-1] == "s":
        if word.endswith("sses"):
            word = word[:-2]
        elif word.endswith("ies"):
            word = word[:-3] + "i"
        elif word[-2] != "s":
            word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return _repair(base) if "v" in _pattern(base) else word
    return word


def _repair(base: str) -> str:
    """Give back what a word lost before -ed or -ing: an e, or its single last consonant."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if _ends_in_double_consonant(base):
        return base if base[-1] in "lsz" else base[:-1]
    return base + "e" if _measure(base) == 1 and _ends_in_cvc(base) else base


def _replace(word: str, rules: _Rules) -> str:
    for suffix, replacement in rules.get(word[-1], ()):
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + replacement if _measure(base) > 0 else word
    return word


def _step_4(word: str) -> str:
    """Strip a last suffix where at least two vowel-consonant sequences stand before it."""
    for suffix, _ in _STEP_4.get(word[-1], ()):
        if word.endswith(suffix):
            base = word[:-3] if suffix in ("sion", "tion") else word[: -len(suffix)]
            return base if _measure(base) > 1 else word
    return word


def _step_5(word: str) -> str:
    """Drop a final e and undouble a final l, in long words only."""
    measure = _measure(word)
    if word[-1] == "e" and (measure > 1 or (measure == 1 and not _ends_in_cvc(word[:-1]))):
        word = word[:-1]
    if word.endswith("ll") and measure > 1:
        word = word[:-1]
    return word
