"""The shop: everything that sessions share and nothing that they change."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_envs.envs.webshop.catalogue import Catalogue, Product
from agent_envs.envs.webshop.goals import Goal
from agent_envs.envs.webshop.nouns import TitleNouns
from agent_envs.envs.webshop.reward import Reward, score_purchase
from agent_envs.envs.webshop.search import ProductSearch
from agent_envs.envs.webshop.session import Session


class Engine:
    """A read-only shop for any number of sessions and threads.

    Example:
        >>> catalogue = Catalogue.from_files("data/webshop")
        >>> engine = Engine(catalogue, Goals(catalogue))
        >>> session = engine.session(17)
        >>> session.act("search[red shoes]").valid
        True
    """

    def __init__(
        self,
        catalogue: Catalogue,
        goals: Sequence[Goal],
        *,
        nouns: TitleNouns | None = None,
        index_dir: str | Path | None = None,
    ) -> None:
        """Open a shop.

        Args:
            catalogue: Products.
            goals: What shoppers are asked for; their ASINs should be in the catalogue.
            nouns: Nouns of the titles; None for the rule that needs no spaCy.
            index_dir: Folder in which the search index is kept for the next time; None builds it anew.
        """
        self.catalogue, self.goals = catalogue, goals
        self.nouns = nouns or TitleNouns.by_rule()
        self.search = ProductSearch(catalogue, index_dir=index_dir)

    def session(self, goal_index: int, *, show_attrs: bool = False, strict_search: bool = False) -> Session:
        """Start a visit.

        Args:
            goal_index: Place of the goal in `goals`.
            show_attrs: Item pages have an Attributes button, as an option of the official engine.
            strict_search: Refuse searches on pages without a search bar; the official engine accepts them everywhere.

        Raises:
            IndexError: If there is no such goal.
        """
        if not 0 <= goal_index < len(self.goals):
            raise IndexError(f"goal_index must be in [0, {len(self.goals)}), got {goal_index}.")
        return Session(self, goal_index, show_attrs=show_attrs, strict_search=strict_search)

    def score(self, bought: Product, goal: Goal, options: Mapping[str, str]) -> Reward:
        """Score a purchase of a product with its chosen value per option axis."""
        return score_purchase(
            bought, goal, options, bought_nouns=self.nouns(bought.title), wanted_nouns=self.nouns(goal.name)
        )
