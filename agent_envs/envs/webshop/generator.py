"""The embedded shop: invented products and shoppers' wishes, the same bytes in every process.

Texts are put together from the package's own word lists (``words/*.json``); brands do not exist. The records have the
shapes of the three official files, so everything that reads those reads these.
"""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.envs.webshop.catalogue import HUMAN_FILE, SMALL_FILES, Catalogue
from agent_envs.envs.webshop.generator_words import Draws, Family, Kind, Words, load_words
from agent_envs.tasks import write_atomically

GENERATOR_VERSION = 1
"""Part of every drawn stream; raised when the products change."""
PRODUCTS_PER_KIND = 5

_NO_PRICE, _PRICE_RANGE = 0.10, 0.36  # shares of products; some of the latter lack options and get one price
_AXIS_CHANCES = (0.94, 0.82, 0.6)
_CENTS = (0.99, 0.99, 0.95, 0.49, 0.0)
_DEAREST = 1899.0  # dollars
_SMALL_WORDS = frozenset({"and", "by", "for", "of", "on", "the", "with"})  # lower case inside titles


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """A shop in the shapes of the official files."""

    products: Sequence[Mapping[str, Any]]
    """Elements of ``items_shuffle_1000.json``."""
    instructions: Mapping[str, Any]
    """Content of ``items_ins_v2_1000.json``."""
    human_instructions: Mapping[str, Any]
    """Content of ``items_human_ins.json``: here not by people, but in their tone."""


def generate_records() -> Records:
    """Make all records (0.1 s)."""
    words = load_words()
    made = [
        _ProductWriter(words, family, kind, number).records()
        for family in words.families
        for kind in family.kinds
        for number in range(PRODUCTS_PER_KIND)
    ]
    made.sort(key=lambda records: str(records[0]["asin"]))  # ids are digests: kinds end up mixed
    return Records(
        products=[product for product, _, _ in made],
        instructions={product["asin"]: instruction for product, instruction, _ in made},
        human_instructions={product["asin"]: human for product, _, human in made},
    )


@functools.lru_cache(maxsize=1)
def generated_catalogue() -> Catalogue:
    """Return the embedded catalogue, made once per process."""
    records = generate_records()
    return Catalogue.from_records(records.products, records.instructions, records.human_instructions)


def write_official_files(folder: str | Path) -> None:
    """Write the embedded shop as the three official files, for programs that read only those."""
    records = generate_records()
    contents = (records.products, records.instructions, records.human_instructions)
    for name, content in zip((*SMALL_FILES, HUMAN_FILE), contents, strict=True):
        write_atomically(Path(folder) / name, json.dumps(content, ensure_ascii=False, indent=1))


class _ProductWriter:
    """Draws one product and writes its records."""

    def __init__(self, words: Words, family: Family, kind: Kind, number: int) -> None:
        self.words, self.family, self.kind = words, family, kind
        shelf = Draws(f"webshop/{GENERATOR_VERSION}/{kind.query}")  # the same for all products of the kind
        self.brand = shelf.sample(family.brands, PRODUCTS_PER_KIND)[number]
        name = f"webshop/{GENERATOR_VERSION}/{kind.query}/{number}"
        self.draws = Draws(name)
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        self.asin = f"B0{int.from_bytes(digest, 'big') % 10**8:08d}"
        self.style, self.use = self.draws.pick(family.styles), self.draws.pick(family.uses)
        self.attributes = self._draw_attributes()
        self.options = self._draw_options()

    def records(self) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
        """Return the product, its synthetic instruction and its instructions in the tone of people."""
        title, description, bullets = self._title(), self._description(), self._bullets()
        pricing = self._set_prices()
        product = {
            "name": title,
            "brand": f"Brand: {self.brand}",
            "full_description": description,
            "pricing": pricing,
            "images": [f"{self.asin}.png"],
            "product_category": " › ".join([*self.family.path, self.kind.leaf]),
            "small_description": bullets,
            "customization_options": self.options,
            "asin": self.asin,
            "category": self.family.category,
            "query": self.kind.query,
        }
        return product, self._instruction(), self._human()

    def _pattern(self, purpose: str) -> str:
        return self.draws.pick(self.words.phrases[purpose])

    def _draw_attributes(self) -> list[str]:
        wanted, found = self.draws.between(3, 5), list[str]()
        for attribute in self.draws.sample(list(self.kind.attributes), len(self.kind.attributes)):
            clash = any(attribute in group and group & set(found) for group in self.family.clashes)
            if not clash and len(found) < wanted:
                found.append(attribute)
        return found

    def _draw_options(self) -> dict[str, list[dict[str, Any]]]:
        options = {}
        for axis, share in zip(self.family.axes, _AXIS_CHANCES, strict=False):
            if self.draws.chance(share):
                values = self.draws.in_order(axis.values, self.draws.between(axis.fewest, axis.most))
                options[axis.name] = [{"value": value, "image": None, "price_string": ""} for value in values]
        return options

    def _set_prices(self) -> str:
        """Price the product and, where it has a range of prices, each value of its last axis; return the price text."""
        base = min(self.draws.log_normal(self.family.median_price, self.family.price_spread), _DEAREST)
        draw = self.draws.below(100) / 100
        if draw < _NO_PRICE:
            return ""
        if draw >= _NO_PRICE + _PRICE_RANGE or not self.options:
            return f"${self._round(base):,.2f}"
        values = list(self.options.values())[-1]
        step = 0.08 + 0.04 * self.draws.below(5)  # how much dearer the next value is
        for place, value in enumerate(values):
            value["price_string"] = f"${self._round(base * (1 + step * place)):,.2f}"
        prices = sorted(float(value["price_string"][1:].replace(",", "")) for value in values)
        return f"${prices[0]:,.2f}${prices[-1]:,.2f}"

    def _round(self, dollars: float) -> float:
        return max(int(dollars), 3) + self.draws.pick(_CENTS)

    def _title(self) -> str:
        first, second, third, *_ = self.draws.sample(self.attributes, 3)
        trade_mark = "™" if self.draws.chance(0.06) else ""
        text = self._pattern("titles").format(
            audience=self.family.audience,
            style=self.style,
            name=self.kind.name,
            short=self.kind.name.split()[-1],
            use=self.use,
            a1=first,
            a2=second,
            a3=third,
            brand="\0",  # keeps its own capitals
        )
        words = (self._capital(word) for word in text.split())
        return " ".join(words).replace("\0", self.brand + trade_mark)

    def _capital(self, word: str) -> str:
        bare = word.strip(",")
        if bare in self.words.acronyms:
            return word.upper()
        if bare in _SMALL_WORDS:
            return word
        return "-".join(part[:1].upper() + part[1:] for part in word.split("-"))

    def _description(self) -> str:
        opening = self._pattern("openings").format(
            gloss=self.kind.gloss,
            brand=self.brand,
            style=self.style,
            Style=self.style.capitalize(),
            use=self.use,
            year=f"{self.draws.between(3, 21):02d}",
        )
        # Not all: some attributes stand on the Features page alone, which the search does not read in full.
        *most, last = self.draws.in_order(self.attributes, self.draws.between(1, len(self.attributes) - 1))
        named = f"{', '.join(most)} and {last}" if most else last
        features = self._pattern("features").format(attributes=named)
        # Has the plural, which is what shoppers search for.
        shelf = self._pattern("shelves").format(query=self.kind.query, brand=self.brand)
        return " ".join((opening, features, shelf, self._pattern("closings").format(brand=self.brand)))

    def _bullets(self) -> list[str]:
        bullets = [f"{attribute.upper()}: {self._sentence(attribute)}." for attribute in self.attributes]
        bullets.append(f"{self.style.capitalize()} {self.kind.name} for {self.use}.")
        if self.draws.chance(0.4):
            bullets.append(self._pattern("closings").format(brand=self.brand))
        return bullets

    def _sentence(self, attribute: str) -> str:
        text = self.kind.attributes[attribute]
        return text[:1].upper() + text[1:]

    def _instruction(self) -> dict[str, Any]:
        wanted = self.draws.sample(self.attributes, self.draws.pick((1, 2, 2, 3)))
        text = self._pattern("instructions").format(
            before=", ".join(wanted), query=self.kind.query, use=self.use, style=self.style
        )
        return {"attributes": self.attributes, "instruction": text, "instruction_attributes": wanted}

    def _human(self) -> list[dict[str, Any]]:
        return [self._human_instruction() for _ in range(2 if self.draws.chance(0.3) else 1)]

    def _human_instruction(self) -> dict[str, Any]:
        attribute = self.draws.pick(self.attributes)
        text = self._pattern("human").format(attribute=attribute, query=self.kind.query, use=self.use, style=self.style)
        chosen = []
        if self.options and self.draws.chance(0.75):
            value = self.draws.pick(self.draws.pick(list(self.options.values())))["value"]
            chosen.append(value.replace("/", " | "))
            text = text.rstrip(".") + self._pattern("human options").format(value=chosen[0])
        return {
            "asin": self.asin,
            "instruction": text,
            "attributes": self.attributes,
            "instruction_attributes": [attribute],
            "instruction_options": chosen,
        }
