"""The product catalogue: official WebShop files to immutable products.

The loading rules are those of the official engine (princeton-nlp/WebShop): which products are skipped, how price
texts and option values are normalised, which attribute stands in for missing ones. Prices of products with a price
range are drawn from a constant seed and the ASIN, so that a product costs the same in every process.
"""

import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from agent_envs.envs.webshop.json_stream import iter_list, iter_object

DEFAULT_PRICE = 100.0  # dollars, of products without a price text
NO_ATTRIBUTES = ("DUMMY_ATTR",)  # what the official engine lists for a product without attributes
MAX_ASIN_LENGTH = 10
SMALL_FILES = ("items_shuffle_1000.json", "items_ins_v2_1000.json")
FULL_FILES = ("items_shuffle.json", "items_ins_v2.json")
HUMAN_FILE = "items_human_ins.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class HumanInstruction:
    """An instruction that a person wrote for a product."""

    text: str
    """The instruction without a price limit."""
    attributes: tuple[str, ...]
    """Attributes it asks for."""
    options: tuple[str, ...]
    """Option values it asks for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """One product, ready to show and to score."""

    asin: str
    """Product id, at most 10 characters."""
    title: str
    """Name as shown."""
    description: str
    """Text of the Description page."""
    bullets: tuple[str, ...]
    """Lines of the Features page."""
    price_text: str
    """Price as shown: ``$20.0`` or ``$9.5 to $20.0``."""
    price: float
    """Dollars; of a range the drawn price, which is the one that counts for the reward."""
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """(axis, values) pairs in file order, all lower case."""
    attributes: tuple[str, ...]
    """What the product is known to have; compared with the goal's attributes."""
    category: str
    """Top category such as ``fashion``."""
    query: str
    """The search the product was found with, lower case."""
    product_category: str
    """Path of categories joined by ``›``."""
    instruction: str | None = None
    """Base of the synthetic instructions, None if the product has no synthetic goal."""
    instruction_attributes: tuple[str, ...] = ()
    """Attributes of the synthetic goals."""
    human: tuple[HumanInstruction, ...] = ()
    """Instructions written by people."""


class Catalogue:
    """Immutable products in file order; one object serves all environments of a process."""

    def __init__(self, products: Iterable[Product], *, seed: int = 0) -> None:
        """Take finished products; `from_files` and `from_records` make them.

        Args:
            products: Products with distinct ASINs.
            seed: Constant behind the drawn prices and price limits; it is part of what a task index means.
        """
        self.products = tuple(products)
        self.seed = seed
        self._rows = {product.asin: row for row, product in enumerate(self.products)}
        if len(self._rows) != len(self.products):
            raise ValueError("products must have distinct ASINs. Drop the repeated ones.")

    def __len__(self) -> int:
        """Return the number of products."""
        return len(self.products)

    def __iter__(self) -> Iterator[Product]:
        """Iterate over the products in file order."""
        return iter(self.products)

    def row(self, asin: str) -> int:
        """Return the place of a product in file order; KeyError if the catalogue has no such ASIN."""
        return self._rows[asin]

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of all products, prices included: equal digests mean equal shops."""
        state = hashlib.blake2b(f"catalogue/{self.seed}".encode(), digest_size=16)
        for product in self.products:
            state.update(json.dumps(astuple(product), ensure_ascii=True, separators=(",", ":")).encode())
        return state.hexdigest()

    @classmethod
    def from_files(
        cls,
        data_dir: str | Path,
        *,
        full: bool = False,
        human_goals: bool = False,
        num_products: int | None = None,
        prices: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> "Catalogue":
        """Read the official files from a folder.

        Args:
            data_dir: Folder with the files.
            full: Read ``items_shuffle.json`` and ``items_ins_v2.json`` instead of the sets of 1,000 products.
            human_goals: Also read ``items_human_ins.json``.
            num_products: Use the first products of the file only, counted before any is skipped; None for all.
            prices: Drawn price per ASIN, for products with a price range; those not named are drawn.
            seed: Constant behind the drawn prices and price limits.

        Raises:
            FileNotFoundError: If a file is missing.
            ValueError: If a file is truncated, or a product has fields of a wrong type.
        """
        folder = Path(data_dir)
        names = [*(FULL_FILES if full else SMALL_FILES), *([HUMAN_FILE] if human_goals else [])]
        for name in names:
            if not (folder / name).is_file():
                raise FileNotFoundError(
                    f"WebShop needs the file {folder / name}, which does not exist. Fetch it with "
                    f"`agent-envs data webshop --download`, or name the folder that has it with data_dir."
                )
        return cls.from_records(
            islice(iter_list(folder / names[0]), num_products),
            iter_object(folder / names[1]),
            iter_object(folder / HUMAN_FILE) if human_goals else (),
            prices=prices,
            seed=seed,
        )

    @classmethod
    def from_records(
        cls,
        products: Iterable[Any],
        instructions: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        human_instructions: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        *,
        prices: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> "Catalogue":
        """Build a catalogue from records in the shapes of the three official files.

        Args:
            products: Elements of ``items_shuffle*.json``.
            instructions: Content of ``items_ins_v2*.json``, a mapping or its pairs.
            human_instructions: Content of ``items_human_ins.json``, a mapping or its pairs.
            prices: Drawn price per ASIN, for products with a price range; those not named are drawn.
            seed: Constant behind the drawn prices and price limits.
        """
        drawn = dict(prices or {})
        found: dict[str, Product] = {}
        for place, record in enumerate(products):
            fields = _Fields(record, f"product {place}")
            asin = fields.text("asin", required=True)
            if asin == "nan" or len(asin) > MAX_ASIN_LENGTH or asin in found:
                continue
            fields.where = f"product {place} (asin {asin!r})"
            found[asin] = _product(fields, asin, drawn.get(asin), seed)
        for asin, record in _pairs(instructions):
            if asin in found:
                found[asin] = _with_instruction(found[asin], _Fields(record, f"instructions of {asin!r}"))
        for asin, records in _pairs(human_instructions):
            if asin in found:
                found[asin] = replace(found[asin], human=tuple(_human(asin, records)))
        return cls(found.values(), seed=seed)


def _pairs(source: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    return source.items() if isinstance(source, Mapping) else source


class _Fields:
    """A JSON object with checked access: null or missing text reads as empty, any other type is an error."""

    def __init__(self, record: Any, where: str) -> None:
        self.where = where
        if not isinstance(record, Mapping):
            raise ValueError(f"WebShop {where} must be a JSON object, got {record!r:.80}. Repair the data file.")
        self.record = record

    def wrong(self, key: str, expected: str) -> ValueError:
        value = self.record.get(key)
        return ValueError(f"WebShop {self.where}: {key!r} must be {expected}, got {value!r:.80}. Repair the data file.")

    def text(self, key: str, *, required: bool = False) -> str:
        value = self.record.get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, "text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.record.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of texts")
        return tuple(map(sys.intern, value))


def _product(fields: _Fields, asin: str, drawn: float | None, seed: int) -> Product:
    price_text, amounts = _prices(fields)
    if len(amounts) == 1:
        price = amounts[0]
    elif drawn is not None:
        price = float(drawn)
    else:  # a text seed is hashed with SHA-512, so the draw is the same in every process
        price = random.Random(f"price/{seed}/{asin}").uniform(*amounts)
    bullets = fields.record.get("small_description")
    return Product(
        asin=asin,
        title=fields.text("name"),
        description=fields.text("full_description"),
        bullets=(bullets,) if isinstance(bullets, str) else fields.texts("small_description"),
        price_text=price_text,
        price=price,
        options=_options(fields),
        attributes=NO_ATTRIBUTES,
        category=sys.intern(fields.text("category")),
        query=sys.intern(fields.text("query").lower().strip()),
        product_category=sys.intern(fields.text("product_category")),
    )


def _prices(fields: _Fields) -> tuple[str, list[float]]:
    """Return the shown price and its one or two amounts in dollars."""
    text = fields.text("pricing")
    if not text:
        return f"${DEFAULT_PRICE}", [DEFAULT_PRICE]
    try:
        amounts = [
            float(Decimal("".join(sign for sign in part if sign.isdecimal() or sign == ".")))
            for part in text.split("$")[1:]
        ]
    except InvalidOperation as error:
        raise fields.wrong("pricing", "empty or amounts such as $9.99 or $5.00$9.99") from error
    if not amounts:
        raise fields.wrong("pricing", "empty or amounts such as $9.99 or $5.00$9.99")
    if len(amounts) == 1:
        return f"${amounts[0]}", amounts
    return f"${amounts[0]} to ${amounts[1]}", amounts[:2]


def _options(fields: _Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
    axes = fields.record.get("customization_options")
    if not axes:
        return ()
    if not isinstance(axes, Mapping):
        raise fields.wrong("customization_options", "an object of lists")
    options: dict[str, tuple[str, ...]] = {}
    for axis, entries in axes.items():
        if entries is None:
            continue
        if not isinstance(entries, list) or not all(
            isinstance(entry, Mapping) and isinstance(entry.get("value"), str) for entry in entries
        ):
            raise fields.wrong("customization_options", 'lists of objects with a text "value"')
        values = (sys.intern(entry["value"].strip().replace("/", " | ").lower()) for entry in entries)
        options[sys.intern(axis.lower())] = tuple(values)
    return tuple(options.items())


def _with_instruction(product: Product, fields: _Fields) -> Product:
    return replace(
        product,
        attributes=fields.texts("attributes") if "attributes" in fields.record else NO_ATTRIBUTES,
        instruction=fields.text("instruction") if fields.record.get("instruction") is not None else None,
        instruction_attributes=fields.texts("instruction_attributes"),
    )


def _human(asin: str, records: Any) -> Iterator[HumanInstruction]:
    if not isinstance(records, list):
        raise ValueError(
            f"WebShop human instructions of {asin!r} must be a list, got {records!r:.80}. Repair the data file."
        )
    for place, record in enumerate(records):
        fields = _Fields(record, f"human instruction {place} of {asin!r}")
        yield HumanInstruction(
            text=fields.text("instruction"),
            attributes=fields.texts("instruction_attributes"),
            options=fields.texts("instruction_options"),
        )
