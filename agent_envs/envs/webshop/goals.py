"""Goals: what a shopper is asked to buy, and up to which price.

Synthetic goals combine a product's instruction with every choice of its options; human goals are instructions that
people wrote. Order and texts are those of the official engine. The price limit is drawn once per product from a
constant seed, so that a goal's index names the same task in every process (the official engine draws it anew in
each).
"""

import array
import bisect
import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from agent_envs.envs.webshop.catalogue import Catalogue, Product

GoalKind = Literal["synthetic", "human"]

NO_PRICE_LIMIT = 1_000_000.0  # dollars, where fewer than two limits lie above the price
_PRICE_LIMITS = tuple(10.0 * step for step in range(1, 100))  # dollars
_SHUFFLE_SEED = 233  # the official engine's: gives its order of goals


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """A wanted product with attributes, options and a price limit."""

    asin: str
    """Product the goal was made from; buying another one can score as well."""
    category: str
    """Its top category."""
    query: str
    """Its search words; equal words count as the right type of product."""
    name: str
    """Its title; the nouns in it count towards the right type."""
    product_category: str
    """Its path of categories; two common parts count as the right type."""
    instruction_text: str
    """What the shopper reads."""
    attributes: tuple[str, ...]
    """Wanted attributes, at least one."""
    price_upper: float
    """Highest price in dollars, above 0."""
    goal_options: tuple[tuple[str, str], ...] | tuple[str, ...]
    """Wanted options: (axis, value) pairs of a synthetic goal, values of a human one."""
    weight: float = 1.0
    """Share of a weighted draw."""

    def __post_init__(self) -> None:
        """Refuse goals that no purchase can be scored against."""
        if not self.attributes:
            raise ValueError(f"attributes of a goal must not be empty, got none for asin {self.asin!r}. Name one.")
        if not self.price_upper > 0:
            raise ValueError(f"price_upper must be above 0 dollars, got {self.price_upper!r} for asin {self.asin!r}.")

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Goal":
        """Read a goal in the official engine's shape: ``goal_options`` is an object or a list of texts."""
        options = record["goal_options"]
        return cls(
            **{
                key: record[key]
                for key in ("asin", "category", "query", "name", "product_category", "instruction_text")
            },
            attributes=tuple(record["attributes"]),
            price_upper=float(record["price_upper"]),
            goal_options=tuple(options.items()) if isinstance(options, Mapping) else tuple(options),
            weight=float(record.get("weight", 1.0)),
        )


def price_limits(price: float) -> list[float]:
    """Return the limits that can be set for a price: the first four of 10, 20, ... 990 dollars strictly above it."""
    above = bisect.bisect_right(_PRICE_LIMITS, price)
    return list(_PRICE_LIMITS[above : above + 4])


def _draw_limit(price: float, rng: random.Random) -> float:
    limits = price_limits(price)
    return max(rng.sample(limits, 2)) if len(limits) >= 2 else NO_PRICE_LIMIT


def _limit_text(limit: float) -> str:
    return "" if limit == NO_PRICE_LIMIT else f", and price lower than {limit:.2f} dollars"


class Goals(Sequence[Goal]):
    """All goals of a catalogue in the official order, built one at a time when asked for.

    Three numbers per goal are held, so that the millions of goals of the full catalogue fit in memory.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        kind: GoalKind = "synthetic",
        *,
        rng_for: Callable[[Product], random.Random] | None = None,
    ) -> None:
        """List the goals of a catalogue.

        Args:
            catalogue: Products; those without an instruction, or with one that names no attribute, give no goal.
            kind: ``"synthetic"`` or ``"human"``.
            rng_for: Generator that a product's price limits are drawn from, one draw per product (synthetic) or
                instruction (human), in file order; None for one seeded with the catalogue's seed and the ASIN.

        Raises:
            ValueError: If the kind is unknown or the catalogue gives no goal.
        """
        if kind not in ("synthetic", "human"):
            raise ValueError(f"kind must be 'synthetic' or 'human', got {kind!r}.")
        self.catalogue, self.kind = catalogue, kind
        seeded = rng_for or (lambda product: random.Random(f"goal/{catalogue.seed}/{product.asin}"))
        rows, variants, limits = array.array("i"), array.array("i"), array.array("d")
        for row, product in enumerate(catalogue):
            for variant, limit in self._variants_of(product, seeded):
                rows.append(row)
                variants.append(variant)
                limits.append(limit)
        if not rows:
            raise ValueError(
                f"The catalogue of {len(catalogue)} products gives no {kind} goal. Load its instruction file."
            )
        order = list(range(len(rows)))
        random.Random(_SHUFFLE_SEED).shuffle(order)
        self._rows = np.array(rows, dtype=np.int32)[order]
        self._variants = np.array(variants, dtype=np.int32)[order]
        self._limits = np.array(limits, dtype=np.float64)[order]

    def _variants_of(
        self, product: Product, rng_for: Callable[[Product], random.Random]
    ) -> Iterator[tuple[int, float]]:
        """Yield number and price limit of each goal of a product: of a combination of options, or of an instruction."""
        if self.kind == "human":
            if not any(human.attributes for human in product.human):
                return
            rng = rng_for(product)
            for place, human in enumerate(product.human):
                if human.attributes:
                    yield place, _draw_limit(product.price, rng)
        elif product.instruction is not None and product.instruction_attributes:
            limit = _draw_limit(product.price, rng_for(product))  # drawn even if an axis without values leaves no goal
            for number in range(math.prod(len(values) for _, values in product.options)):
                yield number, limit

    def __len__(self) -> int:
        """Return the number of goals."""
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Goal: ...
    @overload
    def __getitem__(self, index: slice) -> list[Goal]: ...
    def __getitem__(self, index: int | slice) -> Goal | list[Goal]:
        """Build the goal of an index."""
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        row, variant, limit = int(self._rows[index]), int(self._variants[index]), float(self._limits[index])
        product = self.catalogue.products[row]
        if self.kind == "human":
            human = product.human[variant]
            return _goal(product, human.text.strip("."), human.attributes, human.options, limit, 1.0)
        options = _combination(product, variant)
        chosen = ", and ".join(f"{axis}: {value}" for axis, value in options)
        text = f"{product.instruction} with {chosen}" if chosen else f"{product.instruction}"
        weight = float(self._product_weights[row])
        return _goal(product, text, product.instruction_attributes, options, limit, weight)

    @cached_property
    def _product_weights(self) -> npt.NDArray[np.float64]:
        """[N] weight of each product's synthetic goals: mean over its attributes of 1 / (goals with that attribute)."""
        counts: Counter[str] = Counter()
        per_row = np.bincount(self._rows, minlength=len(self.catalogue)).tolist()
        for product, goals in zip(self.catalogue, per_row, strict=True):
            for attribute in product.instruction_attributes if goals else ():
                counts[attribute] += goals
        weights = np.zeros(len(self.catalogue))
        for row, product in enumerate(self.catalogue):
            if per_row[row]:
                shares = [1.0 / counts[attribute] for attribute in product.instruction_attributes]
                weights[row] = sum(shares) / len(shares)
        return weights

    @cached_property
    def _running_weights(self) -> list[float]:
        each = np.ones(len(self)) if self.kind == "human" else self._product_weights[self._rows]
        return [0.0, *np.cumsum(each).tolist()]

    def weighted_index(self, unit: float) -> int:
        """Turn a uniform number of [0, 1) into a goal index the way the official engine does.

        Its index is one too high: goal i is drawn with the weight of goal i - 1, goal 0 never, the last goal with the
        weights of the last two. Kept, because published runs were trained on these frequencies.
        """
        sums = self._running_weights
        return min(bisect.bisect(sums, sums[-1] * unit), len(self) - 1)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of kind, catalogue, order and limits: equal digests mean that an index names one task."""
        state = hashlib.blake2b(f"{self.kind}/{self.catalogue.digest}".encode(), digest_size=16)
        state.update(self._rows.astype("<i4").tobytes() + self._variants.astype("<i4").tobytes())
        state.update(self._limits.astype("<f8").tobytes())
        return state.hexdigest()


def _combination(product: Product, number: int) -> tuple[tuple[str, str], ...]:
    """Return the choice of options with a number; axes in alphabetical order, the last one turning fastest."""
    chosen = []
    for axis, values in sorted(product.options, reverse=True):
        number, place = divmod(number, len(values))
        chosen.append((axis, values[place]))
    return tuple(reversed(chosen))


def _goal(
    product: Product,
    text: str,
    attributes: Iterable[str],
    options: tuple[tuple[str, str], ...] | tuple[str, ...],
    limit: float,
    weight: float,
) -> Goal:
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        instruction_text=text + _limit_text(limit),
        attributes=tuple(attributes),
        price_upper=limit,
        goal_options=options,
        weight=weight,
    )
