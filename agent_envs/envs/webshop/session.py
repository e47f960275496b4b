"""One shopper's visit: actions, pages, canonical state, snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent_envs.envs.webshop import pages
from agent_envs.envs.webshop.catalogue import Product
from agent_envs.envs.webshop.reward import Reward

if TYPE_CHECKING:
    from agent_envs.envs.webshop.engine import Engine

Target = str | tuple[str, str] | None
"""What a click leads to: a product's ASIN, an (axis, value) pair, or None for a button."""
ObservationMode = Literal["official", "verl"]
Reason = Literal["", "no_match", "unknown_verb", "empty_argument", "not_clickable", "no_search_bar"]
PAGES = ("index", "results", "item", *pages.SUB_PAGES, "done")

MAX_QUERY_LENGTH = 1024  # characters; what is longer is cut, as Lucene refuses queries of more than 1,024 words
_SNAPSHOT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What an action led to."""

    valid: bool
    """The action was carried out; if not, the page is unchanged."""
    reason: Reason = ""
    """Why it was refused: ``no_match`` (not of the form ``verb[argument]``), ``empty_argument``, ``unknown_verb``,
    ``not_clickable`` or ``no_search_bar``; ``""`` if valid."""
    done: bool = False
    """This action bought a product."""
    score: float = 0.0
    """Score of the purchase, 0.0 without one."""
    parts: Reward | None = None
    """Its parts, None without a purchase."""


def parse_action(action: str) -> tuple[str, str, Reason]:
    r"""Split ``verb[argument]`` into verb, lower-case argument and why it is refused (``""`` if it has the form).

    The form is the official engine's regular expression ``(.+)\[(.+)\]`` matched at the start, in linear time: within
    the first line, up to the last ``]`` and from the last ``[`` that leaves an argument.
    """
    line = action.split("\n", 1)[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    if start >= 1:
        return line[:start], line[start + 1 : end].lower(), ""
    return "", "", "empty_argument" if end >= 2 and line[end - 1] == "[" else "no_match"


class Session:
    """A visit with one goal; holds only what the shopper did, everything else is the engine's."""

    def __init__(self, engine: "Engine", goal_index: int, *, show_attrs: bool, strict_search: bool) -> None:
        """Start on the index page; use `Engine.session`."""
        self.engine = engine
        self.goal_index = goal_index
        self.goal = engine.goals[goal_index]
        self.show_attrs, self.strict_search = show_attrs, strict_search
        self.page = "index"
        """One of `PAGES`."""
        self.query: str | None = None
        self.page_no: int | None = None
        self.asin: str | None = None
        self.options: dict[str, str] = {}
        self.reward: Reward | None = None
        self._results: tuple[int, ...] = ()

    @property
    def product(self) -> Product:
        """The product of an item page, a sub page or the done page."""
        if self.asin is None:
            raise RuntimeError(f"the {self.page} page shows no product")
        return self.engine.catalogue.products[self.engine.catalogue.row(self.asin)]

    @property
    def has_search_bar(self) -> bool:
        """Tell whether the page has a search bar; without one a search works too, unless ``strict_search`` is set."""
        return self.page == "index"

    def observation(self, mode: ObservationMode = "official") -> str:
        """Return the text of the page.

        Args:
            mode: ``"official"``, or ``"verl"`` for the parts after the instruction in single quotes.
        """
        text = pages.SEPARATOR.join(self._segments())
        if mode == "official":
            return text
        if mode == "verl":
            return pages.quote_after_instruction(text, self.goal.instruction_text.strip())
        raise ValueError(f"mode must be 'official' or 'verl', got {mode!r}.")

    def _segments(self) -> list[str]:
        instruction = self.goal.instruction_text
        if self.page == "index":
            return pages.index_page(instruction)
        if self.page == "results":
            return pages.results_page(instruction, self.page_no or 1, len(self._results), self.shown_products())
        if self.page == "item":
            return pages.item_page(instruction, self.product, show_attrs=self.show_attrs)
        if self.page == "done":
            return pages.done_page(self.product.asin, self.options, self.reward.total if self.reward else 0.0)
        return pages.sub_page(instruction, self.product, self.page)

    def shown_products(self) -> list[Product]:
        """Return the products of this page of results."""
        last = (self.page_no or 1) * pages.PER_PAGE
        return [self.engine.catalogue.products[row] for row in self._results[last - pages.PER_PAGE : last]]

    def _targets(self) -> dict[str, Target]:
        """Map what can be clicked, in page order, to what it leads to.

        A text that occurs twice keeps its first place and its last meaning, as in the official engine.
        """
        targets: dict[str, Target] = {}
        if self.page == "results":
            targets = {button.lower(): None for button in pages.result_buttons(self.page_no or 1)}
            targets |= {product.asin.lower(): product.asin for product in self.shown_products()}
        elif self.page == "item":
            targets = {button.lower(): None for button in pages.item_buttons(self.show_attrs)}
            targets |= {value: (axis, value) for axis, values in self.product.options for value in values}
        elif self.page in pages.SUB_PAGES:
            targets = {pages.BACK.lower(): None, pages.PREVIOUS.lower(): None}
        return targets

    def clickables(self) -> list[str]:
        """Return what the official engine lists as clickable; on the index page ``search``, which no click reaches."""
        return ["search"] if self.page == "index" else list(self._targets())

    def available_actions(self) -> list[str]:
        """Return the actions the page offers, in page order.

        Left out are option values that no action can name: empty ones, ``search``, and those with a newline or ``[``.
        """
        search = ["search[<your query>]"] if self.has_search_bar else []
        clicks = ((name, f"click[{name}]") for name in self._targets() if name != "search")
        return search + [action for name, action in clicks if parse_action(action)[:2] == ("click", name)]

    def act(self, action: str) -> Outcome:
        """Carry out ``search[words]`` or ``click[name]``; a refused action changes nothing."""
        if not isinstance(action, str):
            raise TypeError(f"action must be a str such as 'search[red shoes]', got {action!r:.80}.")
        verb, argument, reason = parse_action(action)
        if reason:
            return Outcome(valid=False, reason=reason)
        if verb == "search":
            if self.strict_search and not self.has_search_bar:
                return Outcome(valid=False, reason="no_search_bar")
            self._search(argument[:MAX_QUERY_LENGTH])
            return Outcome(valid=True)
        if verb == "click":
            targets = self._targets()
            if argument in targets and argument != "search":
                return self._click(argument, targets[argument])
            return Outcome(valid=False, reason="not_clickable")
        return Outcome(valid=False, reason="unknown_verb")

    def _search(self, query: str) -> None:
        self.query, self._results = query, self.engine.search.find(query)
        self._show_results(1)

    def _show_results(self, page_no: int) -> None:
        self.page, self.page_no = "results", page_no
        self.asin, self.options, self.reward = None, {}, None  # so that options never leak to another product

    def _click(self, name: str, target: Target) -> Outcome:
        """Follow a click; names of buttons come before option values of the same name."""
        if name == pages.BUY.lower():
            return self._buy()
        if name == pages.BACK.lower():
            self._leave()
        elif name == pages.NEXT.lower() and self.page == "results":
            self._show_results((self.page_no or 1) + 1)
        elif name == pages.PREVIOUS.lower():
            self._previous()
        elif name in pages.SUB_PAGES:
            self.page = name
        elif isinstance(target, str):
            self.page, self.asin, self.options = "item", target, {}
        elif isinstance(target, tuple):
            axis, value = target
            self.options[axis] = value
        return Outcome(valid=True)

    def _leave(self) -> None:
        self.page, self.query, self.page_no, self.asin, self.options = "index", None, None, None, {}
        self._results = ()

    def _previous(self) -> None:
        if self.page == "results":
            self._show_results((self.page_no or 1) - 1)
        elif self.page == "item":
            self._show_results(self.page_no or 1)
        else:
            self.page = "item"

    def _buy(self) -> Outcome:
        self.reward = self.engine.score(self.product, self.goal, self.options)
        self.page = "done"
        return Outcome(valid=True, done=True, score=self.reward.total, parts=self.reward)

    def canonical_state(self) -> dict[str, Any]:
        """Return what the future depends on as JSON: page, found products, page number, product, chosen options, score.

        The found products stand for the query, so that other words with the same answer are the same state. The goal
        is not part of it.
        """
        browsing = self.page not in ("index", "done")
        products = self.engine.catalogue.products
        return {
            "page": self.page,
            "results": [products[row].asin for row in self._results] if browsing else None,
            "page_no": self.page_no if browsing else None,
            "asin": self.asin,
            "options": None if self.page == "index" else sorted([axis, value] for axis, value in self.options.items()),
            "done_score": self.reward.total if self.reward else None,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return the visit as JSON, for `restore` in any session of an equal engine."""
        return {
            "version": _SNAPSHOT_VERSION,
            "goal_index": self.goal_index,
            "page": self.page,
            "query": self.query,
            "page_no": self.page_no,
            "asin": self.asin,
            "options": [[axis, value] for axis, value in self.options.items()],
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to a snapshot, also to one of another goal.

        Raises:
            ValueError: If it is no snapshot of this version or does not fit this catalogue.
        """
        other = Session(self.engine, self.goal_index, show_attrs=self.show_attrs, strict_search=self.strict_search)
        try:
            other._load(snapshot)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise ValueError(
                f"snapshot does not fit this shop ({error!r}). Use one made by an equal engine."
            ) from error
        self.__dict__.update(other.__dict__)

    def _load(self, snapshot: Mapping[str, Any]) -> None:
        if snapshot["version"] != _SNAPSHOT_VERSION or snapshot["page"] not in PAGES:
            raise ValueError("unknown version or page")
        self.goal_index = snapshot["goal_index"]
        self.goal = self.engine.goals[self.goal_index]
        self.page, self.query, self.page_no = snapshot["page"], snapshot["query"], snapshot["page_no"]
        self.asin = snapshot["asin"]
        values = {} if self.asin is None else {axis: values for axis, values in self.product.options}
        for axis, value in snapshot["options"]:
            if value not in values[axis]:
                raise ValueError(f"{value!r} is no value of option {axis!r}")
            self.options[axis] = value
        if self.query is not None:
            self._results = self.engine.search.find(self.query)
        shows_product = self.page not in ("index", "results")
        if shows_product != (self.asin is not None) or (self.page == "index") != (self.query is None):
            raise ValueError("page, query and product do not go together")
        if self.page != "index" and not (isinstance(self.page_no, int) and self.page_no >= 1):
            raise ValueError("no page number")
        if self.page == "done":
            self.reward = self.engine.score(self.product, self.goal, self.options)
