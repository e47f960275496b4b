"""What the templates show: the engine's pages in the terms of a web page."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from agent_envs.envs.webshop import pages
from agent_envs.envs.webshop.catalogue import Catalogue, Product
from agent_envs.envs.webshop.goals import NO_PRICE_LIMIT, Goal
from agent_envs.envs.webshop.reward import count_attributes, option_matches
from agent_envs.envs.webshop.session import Session
from agent_envs.envs.webshop.site.pictures import colour_axis, shape_for, swatch

MAX_BROWSABLE = 50_000  # products; whole departments of more would make slow pages and states
_BROWSE = "<c> "  # first word of the engine's search for a whole department
_AMOUNT = re.compile(r"\$(\d+(?:\.\d+)?)")
_NAMES = {"garden": "Home & Garden"}
# Drawing that stands for a department, if it has such a product.
_FACES = {
    "beauty": "perfume",
    "electronics": "headphones",
    "fashion": "sneaker",
    "garden": "armchair",
    "grocery": "coffee_bag",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Department:
    """A tile of the start page."""

    name: str
    count: int
    action: str
    row: int
    """Product whose picture stands for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A product among the results."""

    asin: str
    title: str
    price: str
    action: str
    row: int
    """Place in the catalogue, by which its picture is named."""
    colours: tuple[str, ...]
    """``#rrggbb`` of the colours it comes in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A value of an option."""

    text: str
    action: str | None
    """None where no action can name the value."""
    is_chosen: bool
    swatch: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """An option axis."""

    name: str
    chosen: str | None
    choices: tuple[Choice, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """Something that was wanted, and whether the purchase has it."""

    text: str
    is_met: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ScorePart:
    """A line of the score."""

    name: str
    share: float
    """How much of it was met, in [0, 1]."""
    weight: float
    """Weight in the score before the type factor; 0.0 if nothing of the kind was wanted."""
    note: str


def dollars(price_text: str) -> str:
    """Return a price as shops write it: the engine's ``$9.5 to $20.0`` as ``$9.50 – $20.00``."""
    return _AMOUNT.sub(lambda match: f"${float(match[1]):,.2f}", price_text).replace(" to ", " – ")


def departments(catalogue: Catalogue) -> list[Department]:
    """Return the departments, which the engine lists with ``search[<c> name]``; none of a very large catalogue."""
    if len(catalogue) > MAX_BROWSABLE:
        return []
    rows: dict[str, list[int]] = {}
    for row, product in enumerate(catalogue):
        if product.category and product.category.lower() == "".join(product.category.split()):
            rows.setdefault(product.category, []).append(row)
    return [
        Department(
            name=_NAMES.get(name, name.capitalize()),
            count=len(members),
            action=f"search[{_BROWSE}{name}]",
            row=_face(catalogue, members, _FACES.get(name)),
        )
        for name, members in sorted(rows.items())
    ]


def _face(catalogue: Catalogue, rows: list[int], shape: str | None) -> int:
    fitting = (row for row in rows if shape and shape_for(catalogue.products[row]).name == shape)
    return next(fitting, rows[0])


def result_cards(session: Session) -> list[Card]:
    """Return the products of the current page of results."""
    catalogue = session.engine.catalogue
    return [_card(product, catalogue.row(product.asin)) for product in session.shown_products()]


def _card(product: Product, row: int) -> Card:
    values = dict(product.options).get(colour_axis(product) or "", ())
    colours = dict.fromkeys(colour for value in values if (colour := swatch(value)) is not None)
    return Card(
        asin=product.asin,
        title=product.title or product.asin,
        price=dollars(product.price_text),
        action=f"click[{product.asin.lower()}]",
        row=row,
        colours=tuple(colours)[:6],
    )


def result_count(session: Session) -> int:
    """Return how many products were found."""
    return len(session.canonical_state()["results"] or ())


def item_options(session: Session) -> list[Option]:
    """Return the option axes of the product."""
    offered = set(session.available_actions())
    return [
        Option(
            name=axis,
            chosen=session.options.get(axis),
            choices=tuple(
                Choice(
                    text=value,
                    action=f"click[{value}]" if f"click[{value}]" in offered else None,
                    is_chosen=session.options.get(axis) == value,
                    swatch=swatch(value) if axis == colour_axis(session.product) else None,
                )
                for value in values
            ),
        )
        for axis, values in session.product.options
        if values
    ]


def chosen_colour(session: Session) -> int:
    """Return the place of the chosen colour among the product's colours, 0 if none is chosen."""
    axis = colour_axis(session.product) or ""
    values = dict(session.product.options).get(axis, ())
    chosen = session.options.get(axis)
    return values.index(chosen) if chosen in values else 0


def sub_page_lines(session: Session) -> list[str]:
    """Return what a Description, Features or Reviews page says."""
    product = session.product
    lines: dict[str, list[str]] = {"description": [product.description], "features": list(product.bullets)}
    return [line for line in lines.get(session.page, []) if line.strip()]


def wishes(session: Session) -> dict[str, list[Wish]]:
    """Return wanted attributes, options and price with what the purchase met, for the score page."""
    product, goal = session.product, session.goal
    bought = list(session.options.values())
    attributes = [
        Wish(text=wanted, is_met=bool(count_attributes(product, dataclasses.replace(goal, attributes=(wanted,)))))
        for wanted in goal.attributes
    ]
    options = [
        Wish(text=_option_text(wanted), is_met=any(option_matches(value, wanted) for value in bought))
        for wanted in goal.goal_options
    ]
    price = [] if goal.price_upper == NO_PRICE_LIMIT else [_price_wish(product, goal)]
    return {name: found for name, found in (("Features", attributes), ("Options", options), ("Price", price)) if found}


def _option_text(wanted: str | tuple[str, str]) -> str:
    return wanted if isinstance(wanted, str) else f"{wanted[0]}: {wanted[1]}"


def _price_wish(product: Product, goal: Goal) -> Wish:
    return Wish(text=f"lower than ${goal.price_upper:,.2f}", is_met=product.price <= goal.price_upper)


def score_parts(session: Session) -> list[ScorePart]:
    """Return the lines that add up to the score before the type factor."""
    reward, goal = session.reward, session.goal
    assert reward is not None, "the score page follows a purchase"
    price = f"${session.product.price:,.2f}"
    return [
        ScorePart(
            name="Features",
            share=reward.r_att,
            weight=reward.w_att,
            note=f"{reward.n_att} of {len(goal.attributes)} found in the product",
        ),
        ScorePart(
            name="Options",
            share=reward.r_option or 0.0,
            weight=reward.w_option,
            note=f"{reward.n_option} of {len(goal.goal_options)} chosen" if goal.goal_options else "none was asked for",
        ),
        ScorePart(
            name="Price",
            share=float(reward.r_price),
            weight=reward.w_price,
            note=f"paid {price}, no limit" if goal.price_upper == NO_PRICE_LIMIT else f"paid {price}",
        ),
    ]


def search_words(session: Session) -> str:
    """Return what was searched for as a person would type it, empty for a department."""
    query = session.query or ""
    return "" if query.startswith(_BROWSE) else query


def page_context(session: Session) -> dict[str, Any]:
    """Return what the template of the current page needs."""
    if session.page == "index":
        return {}
    if session.page == "results":
        page_no, count = session.page_no or 1, result_count(session)
        return {
            "cards": result_cards(session),
            "count": count,
            "page_no": page_no,
            "num_pages": max(1, -(-count // pages.PER_PAGE)),
        }
    context: dict[str, Any] = {
        "product": session.product,
        "price": dollars(session.product.price_text),
        "row": session.engine.catalogue.row(session.product.asin),
        "colour": chosen_colour(session),
        "path": [part.strip() for part in session.product.product_category.split("›") if part.strip()],
        "options": item_options(session) if session.page == "item" else [],
    }
    if session.page == "done":
        wished = wishes(session)
        return context | {
            "reward": session.reward,
            "parts": score_parts(session),
            "wishes": wished,
            "has_missed": any(not wish.is_met for found in wished.values() for wish in found),
        }
    return context | {"lines": sub_page_lines(session)}
