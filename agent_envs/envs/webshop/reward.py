"""The graded reward of a purchase, equal to the official engine (princeton-nlp/WebShop, ``get_reward``).

total = type factor * (matched attributes + matched options + price in limit) / (attributes + options + 1)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_envs.envs.webshop.catalogue import Product
from agent_envs.envs.webshop.colours import normalise_colour
from agent_envs.envs.webshop.fuzzy import matches
from agent_envs.envs.webshop.goals import Goal

NO_NOUN_SCORE = 0.2  # title score of a wanted title without nouns: neither helps nor hurts


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """Score of a purchase with its parts."""

    total: float
    """The score, in [0, 1]."""
    r_type: float
    """Type factor: 1.0, 0.5, 0.1 or 0.0."""
    query_match: bool
    """The products were found with the same search words."""
    category_match: bool
    """The category paths share two parts or more."""
    title_score: float
    """Share of the wanted title's nouns that the bought title has."""
    r_att: float
    """Share of wanted attributes that match."""
    n_att: int
    """Wanted attributes that match."""
    w_att: float
    """Weight of the attributes in the total."""
    r_option: float | None
    """Share of wanted options that match, None if none is wanted."""
    n_option: int
    """Wanted options that match."""
    w_option: float
    """Weight of the options in the total."""
    r_price: bool
    """The price is within the limit."""
    w_price: float
    """Weight of the price in the total."""


def type_factor(
    bought: Product, goal: Goal, bought_nouns: Sequence[str], wanted_nouns: Sequence[str]
) -> tuple[float, bool, bool, float]:
    """Compare what kind of product was bought with what was wanted.

    Returns:
        The factor, whether the query matches, whether the category matches, and the title score.
    """
    query_match = bought.query == goal.query
    category_match = len(_parts(bought.product_category) & _parts(goal.product_category)) >= 2
    if wanted_nouns:  # repeated nouns count each time below the line, once above it
        title_score = len(set(bought_nouns) & set(wanted_nouns)) / len(wanted_nouns)
    else:
        title_score = NO_NOUN_SCORE
    factor = 1.0 if query_match or category_match or title_score > NO_NOUN_SCORE else 0.5
    if title_score < 0.1:
        factor = 0.1
    if title_score == 0.0:
        factor = 0.0
    return factor, query_match, category_match, title_score


def _parts(product_category: str) -> set[str]:
    return {part.strip() for part in product_category.split("›")}


def count_attributes(bought: Product, goal: Goal) -> int:
    """Count the goal's attributes that the product has, by its list or somewhere in its texts."""
    bullets, title, description = " ".join(bought.bullets).lower(), bought.title.lower(), bought.description.lower()
    return sum(
        any(matches(known, wanted) for known in bought.attributes)
        or wanted in title
        or wanted in bullets
        or wanted in description
        for wanted in goal.attributes
    )


def option_matches(value: str, wanted: str | tuple[str, str]) -> bool:
    """Tell whether a chosen option value meets a wanted option.

    A wanted (axis, value) pair is compared as the text of a Python tuple, axis included, because the official engine
    hands the tuple over: the bare word ``size`` meets every wanted size.
    """
    return matches(str(normalise_colour(value)), str(normalise_colour(wanted)))


def score_purchase(
    bought: Product,
    goal: Goal,
    options: Mapping[str, str],
    *,
    bought_nouns: Sequence[str],
    wanted_nouns: Sequence[str],
    price: float | None = None,
) -> Reward:
    """Score a purchase.

    Args:
        bought: The product.
        goal: What was wanted.
        options: Chosen value per axis.
        bought_nouns: Nouns of the bought product's title.
        wanted_nouns: Nouns of the wanted title, with repeats.
        price: Dollars paid; None for the product's price.
    """
    r_type, query_match, category_match, title_score = type_factor(bought, goal, bought_nouns, wanted_nouns)
    n_att = count_attributes(bought, goal)
    n_option = sum(any(option_matches(value, wanted) for value in options.values()) for wanted in goal.goal_options)
    r_price = (bought.price if price is None else price) <= goal.price_upper
    terms = len(goal.attributes) + len(goal.goal_options) + 1
    return Reward(
        total=(n_att + n_option + r_price) / terms * r_type,
        r_type=r_type,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
        r_att=n_att / len(goal.attributes),
        n_att=n_att,
        w_att=len(goal.attributes) / terms,
        r_option=n_option / len(goal.goal_options) if goal.goal_options else None,
        n_option=n_option,
        w_option=len(goal.goal_options) / terms,
        r_price=r_price,
        w_price=1 / terms,
    )
