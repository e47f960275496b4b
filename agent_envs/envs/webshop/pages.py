"""Texts and buttons of the shop's pages.

A page is a list of segments joined by `SEPARATOR`, exactly as the official text environment shows it. There the pages
are HTML and the segments are text nodes, which explains the rules of `_node`.
"""

import json
from collections.abc import Iterable, Mapping

from agent_envs.envs.webshop.catalogue import Product

SEPARATOR = " [SEP] "
PER_PAGE = 10  # products on a page of results

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
SUB_PAGES = ("description", "features", "reviews", "attributes")

_ASCII_BLANKS = " \t\n\r\f"
# The done page shows fields that the official site fills for its human workers only; the misspelling is its own.
_DONE_HEAD = (
    "Thank you for shopping with us!",
    "Your code:",
    "None",
    "(Paste it in your MTurk interface.)",
    "Purchased",
)
_DONE_TAIL = (
    *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
    *("Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query"),
    *("Goal", "None", "Reward", "Your score (min 0.0, max 1.0)"),
)
_JSON_ESCAPES = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "'&<>"})


def _node(text: str) -> list[str]:
    """Return the segments one text node gives: none if empty, else the text without outer blanks.

    Blanks alone give an empty segment, unless a newline is among them: then the HTML parser sees layout and drops them.
    """
    if not text or ("\n" in text and not text.strip(_ASCII_BLANKS)):
        return []
    return [text.strip()]


def _nodes(texts: Iterable[str]) -> list[str]:
    return [segment for text in texts for segment in _node(text)]


def _header(instruction: str) -> list[str]:
    return ["Instruction:", *_node(instruction)]


def index_page(instruction: str) -> list[str]:
    """Return the start page with its search bar."""
    return ["WebShop", *_header(instruction), "Search"]


def result_buttons(page_no: int) -> list[str]:
    """Return the buttons of a page of results."""
    return [BACK, *([PREVIOUS] if page_no > 1 else []), NEXT]


def results_page(instruction: str, page_no: int, num_results: int, shown: Iterable[Product]) -> list[str]:
    """Return a page of results; pages past the end show no products."""
    back, *others = result_buttons(page_no)
    products = [text for product in shown for text in (product.asin, product.title, product.price_text)]
    count = f"Page {page_no} (Total results: {num_results})"
    return [*_header(instruction), back, count, *others, *_nodes(products)]


def item_buttons(show_attrs: bool) -> list[str]:
    """Return the buttons of a product's page."""
    names = [name.capitalize() for name in SUB_PAGES if show_attrs or name != "attributes"]
    return [BACK, PREVIOUS, *names, BUY]


def item_page(instruction: str, product: Product, *, show_attrs: bool) -> list[str]:
    """Return a product's page; it does not show which options are chosen."""
    back, previous, *others = item_buttons(show_attrs)
    options = _nodes(text for axis, values in product.options for text in (axis, *values))
    facts = [*_node(product.title), f"Price: {product.price_text}", "Rating: N.A."]
    return [*_header(instruction), back, previous, *options, *facts, *others]


def sub_page(instruction: str, product: Product, name: str) -> list[str]:
    """Return the Description, Features, Reviews or Attributes page of a product; there are no reviews."""
    texts: list[str] = []
    if name == "description":
        texts = [product.description]
    elif name == "features":
        texts = [f" {bullet}" for bullet in product.bullets]  # the blank of the official template keeps empty bullets
    elif name == "attributes":
        texts = [*product.attributes, product.category, product.query, product.product_category]
    return [*_header(instruction), BACK, PREVIOUS, *_nodes(texts)]


def done_page(asin: str, options: Mapping[str, str], score: float) -> list[str]:
    """Return the page after a purchase."""
    chosen = json.dumps(dict(options), sort_keys=True).translate(_JSON_ESCAPES)
    return [*_DONE_HEAD, "asin", asin, "options", chosen, *_DONE_TAIL, f"{score}", "Reward Details", "None"]


def quote_after_instruction(text: str, instruction: str) -> str:
    """Rewrite a page in the style of the verl trainer: only the parts after the instruction, each in single quotes.

    A page without the instruction, such as the done page, stays as it is.
    """
    parts = text.split(SEPARATOR)
    if instruction not in parts:
        return text
    return SEPARATOR.join(f"'{part}'" for part in parts[parts.index(instruction) + 1 :])
