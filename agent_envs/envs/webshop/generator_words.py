"""Word lists of the embedded shop, and draws from them that are the same everywhere."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

DEPARTMENTS = ("beauty", "electronics", "fashion", "garden", "grocery")
_FOLDER = files("agent_envs.envs.webshop") / "words"
T = TypeVar("T")


class Draws:
    """Draws from a named stream.

    They rest on ``random.Random(text).random()`` alone, whose sequence Python keeps between versions.
    """

    def __init__(self, name: str) -> None:
        self._unit = random.Random(name).random

    def chance(self, share: float) -> bool:
        """Return True in this share of draws."""
        return self._unit() < share

    def below(self, end: int) -> int:
        """Return an int in [0, end)."""
        return int(self._unit() * end)

    def between(self, first: int, last: int) -> int:
        """Return an int in [first, last]."""
        return first + self.below(last - first + 1)

    def pick(self, items: Sequence[T]) -> T:
        """Return one item."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return different items, all of them in drawn order if there are no more than ``count``."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(min(count, len(rest)))]

    def in_order(self, items: Sequence[T], count: int) -> list[T]:
        """Return different items in the order of the list."""
        return [items[place] for place in sorted(self.sample(range(len(items)), count))]

    def log_normal(self, median: float, spread: float) -> float:
        """Return a number about a median; the normal part is a sum of twelve uniform draws."""
        return median * math.exp(spread * (sum(self._unit() for _ in range(12)) - 6.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of product, such as ankle boots."""

    name: str
    """As in titles: ``table lamp``."""
    query: str
    """What shoppers search for: ``women's ankle boots``."""
    leaf: str
    """Last part of the category path."""
    gloss: str
    """A sentence about it."""
    attributes: Mapping[str, str]
    """What a product of the kind may have, each with the rest of a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """An option axis."""

    name: str
    values: Sequence[str]
    fewest: int
    most: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Kinds of product that share a shelf."""

    category: str
    path: Sequence[str]
    audience: str
    """``Women's``, ``Men's`` or empty."""
    kinds: Sequence[Kind]
    axes: Sequence[Axis]
    median_price: float
    """Dollars."""
    price_spread: float
    """Standard deviation of the price's logarithm."""
    styles: Sequence[str]
    uses: Sequence[str]
    brands: Sequence[str]
    clashes: Sequence[frozenset[str]]
    """Attributes of which a product has one at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """All word lists."""

    families: Sequence[Family]
    phrases: Mapping[str, Sequence[str]]
    """Sentence patterns by purpose."""
    acronyms: frozenset[str]


def load_words() -> Words:
    """Read the lists that come with the package."""
    shared = _read("shared")
    return Words(
        families=[
            _family(department, record, shared["values"])
            for department in map(_read, DEPARTMENTS)
            for record in department["families"]
        ],
        phrases={name: texts for name, texts in shared.items() if name not in ("values", "acronyms")},
        acronyms=frozenset(shared["acronyms"]),
    )


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def _family(department: Mapping[str, Any], record: Mapping[str, Any], values: Mapping[str, Sequence[str]]) -> Family:
    median_price, spread = record["price"]
    pool = department["pools"][record["pool"]]
    return Family(
        category=department["category"],
        path=record["path"],
        audience=record["audience"],
        kinds=[_kind(text, record["audience"], pool) for text in record["types"]],
        axes=[Axis(name=name, values=values[key], fewest=low, most=high) for name, key, low, high in record["axes"]],
        median_price=median_price,
        price_spread=spread,
        styles=record["styles"],
        uses=record["uses"],
        brands=department["brands"],
        clashes=[frozenset(group) for group in department["clashes"]],
    )


def _kind(text: str, audience: str, pool: Mapping[str, str]) -> Kind:
    """Read ``name|plural|leaf|gloss``; an empty plural is the name itself."""
    name, plural, leaf, gloss = text.split("|")
    query = f"{audience} {plural or name}".strip().lower()
    attributes = {}
    for attribute, rest in pool.items():
        sentence, _, limit = rest.partition(" @ ")
        if _suits(name, limit):
            attributes[attribute] = sentence
    return Kind(name=name, query=query, leaf=leaf, gloss=gloss, attributes=attributes)


def _suits(name: str, limit: str) -> bool:
    """Read a limit: names that an attribute is for, or after ``-`` names that it is not for."""
    if not limit:
        return True
    listed = name in limit.removeprefix("-").split(",")
    return listed != limit.startswith("-")
