"""Text to index terms, equal to the English analyser of Lucene 9 and Anserini.

Words are cut by the rules of UAX #29 as Lucene's ``StandardTokenizer`` applies them; then come the English possessive,
lower case, 33 stop words and Porter's stemmer. Facts checked against Lucene's own answers: ``t-shirt`` gives
``t shirt``, ``3.5mm`` and ``title:premium`` stay whole, every ideograph, hiragana letter and pictograph (``™``, ``★``,
emoji) is a term of its own, ``½`` is none.

Character classes come from Python's Unicode tables, which are newer than Lucene's (Unicode 9): letters added since then
are letters here.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable

from agent_envs.retriever.porter import stem

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
    "this to was will with".split()
)

_MAX_TOKEN = 255  # characters; Lucene's tokenizer cuts longer ones into pieces of this size
_MID_LETTER = ".'\u2018\u2019\u2024\ufe52\uff07\uff0e:\u00b7\u0387\u05f4\u2027\ufe13\ufe55\uff1a"
_MID_NUMBER = (
    ".'\u2018\u2019\u2024\ufe52\uff07\uff0e,;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044"
    "\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b"
)
# Scripts with rules of their own, as hexadecimal code points and ranges.
_IDEOGRAPHS = "2e80-2fd5 3005 3007 3021-3029 3038-303b 3400-4dbf 4e00-9fff f900-faff 20000-2fa1f 30000-3134f"
_HIRAGANA = "3041-3096 309d-309f"
_KATAKANA = "3031-3035 309b-309c 30a0-30fa 30fc-30ff 31f0-31ff 32d0-32fe 3300-3357 ff66-ff9d"
_SOUTH_EAST_ASIAN = (
    "e01-e3a e40-e4e e81-ecf edc-edf 1000-103f 1050-108f 109a-109f 1780-17d3 17d7 17dc-17dd 1950-19cf 1a20-1a7c "
    "aa60-aadf"
)
_PICTOGRAPHS = (
    "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 "
    "25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747 "
    "274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d "
    "3297 3299 1f000-1f1e5 1f200-1faff"
)
_ASCII_WORDS = re.compile(
    r"[A-Za-z0-9_]+(?:(?:(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))[A-Za-z0-9_]+)*", re.ASCII
)


def _code_points(ranges: str) -> set[int]:
    points: set[int] = set()
    for item in ranges.split():
        first, _, last = item.partition("-")
        points.update(range(int(first, 16), int(last or first, 16) + 1))
    return points


def _char_class(points: Iterable[int]) -> str:
    """Write code points as the inside of a regular expression's character class; none of them has a meaning there."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and point == ranges[-1][1] + 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@functools.lru_cache(maxsize=1)
def _unicode_words() -> re.Pattern[str]:
    """Build the pattern of one word for text with characters outside ASCII (about 0.3 s, once per process)."""
    katakana, south_east = _code_points(_KATAKANA), _code_points(_SOUTH_EAST_ASIAN)
    single, pictographs = _code_points(_IDEOGRAPHS) | _code_points(_HIRAGANA), _code_points(_PICTOGRAPHS)
    own_rules = single | katakana | south_east
    letters, digits, marks, joiners = set(range(0x24B6, 0x24EA)), {0x66B}, {0xFF9E, 0xFF9F}, set[int]()
    south_east_marks = set[int]()
    for point in [*range(0x20000), *range(0xE0001, 0xE01F0)]:  # beyond the second plane all letters are ideographs
        kind = unicodedata.category(chr(point))
        if kind in ("Mn", "Me", "Mc", "Cf") and point != 0x200B:
            marks.add(point)
            if point in south_east:
                south_east_marks.add(point)
        elif kind == "Pc":
            joiners.add(point)
        elif kind == "Nd":
            digits.add(point)
        elif kind[0] == "L" or kind == "Nl":
            letters.add(point)
    letters -= own_rules | marks
    let, num, mark, joiner = map(_char_class, (letters, digits, marks, joiners))
    ext = f"[{mark}]*"
    run = (
        f"(?:[{let}{num}]{ext}|(?<=[{let}{mark}])[{_MID_LETTER}]{ext}(?=[{let}])"
        f"|(?<=[{num}{mark}])[{_MID_NUMBER}]{ext}(?=[{num}]))+"
    )
    part = f"(?:{run}|(?:[{_char_class(katakana)}]{ext})+)"
    join = f"(?:[{joiner}]{ext})"
    picture = f"[{_char_class(pictographs)}]"
    after_picture = f"[{mark}\\U0001f3fb-\\U0001f3ff]*"
    return re.compile(
        f"{join}*{part}(?:{join}+{part})*{join}*"
        f"|[{_char_class(single)}]{ext}"
        f"|[{_char_class(south_east - south_east_marks)}][{_char_class(south_east)}{mark}]*"
        f"|[#*]\\ufe0f?\\u20e3{ext}|[\\U0001f1e6-\\U0001f1ff]{ext}[\\U0001f1e6-\\U0001f1ff]{ext}"
        f"|{picture}{after_picture}(?:(?<=\\u200d){picture}{after_picture})*"
    )


def split_words(text: str) -> list[str]:
    """Cut a text into its words, unchanged and in order."""
    words: list[str] = (_ASCII_WORDS if text.isascii() else _unicode_words()).findall(text)
    if max(map(len, words), default=0) > _MAX_TOKEN:
        return [word[i : i + _MAX_TOKEN] for word in words for i in range(0, len(word), _MAX_TOKEN)]
    return words


@functools.lru_cache(maxsize=1 << 17)
def to_term(word: str) -> str:
    """Return the index term of one word of `split_words`, ``""`` for a stop word or a run of underscores."""
    if len(word) >= 2 and word[-1] in "sS" and word[-2] in "'\u2019\uff07":
        word = word[:-2]
    # Java lowers character by character: no final sigma, and a dotted capital I becomes a plain i.
    word = word.replace("\u03a3", "\u03c3").replace("\u0130", "i").lower()
    if word in STOP_WORDS or not word.strip("_"):
        return ""
    return stem(word)


def analyse(text: str) -> list[str]:
    """Return the index terms of a text in order, with repeats."""
    return [term for term in map(to_term, split_words(text)) if term]
