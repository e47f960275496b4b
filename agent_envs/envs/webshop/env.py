"""The WebShop environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from agent_envs.core import AgentEnv
from agent_envs.envs.webshop import pages
from agent_envs.envs.webshop.oracle import oracle_actions
from agent_envs.envs.webshop.session import ObservationMode, Session
from agent_envs.envs.webshop.shop import choose_shop, open_shop
from agent_envs.errors import unknown_name
from agent_envs.spaces import FreeText

REWARD_MODES = ("success", "graded")
SAMPLINGS = ("uniform", "weighted")
# Name of the scheme to the first goal of each split and the end of the last, None for all goals.
SPLIT_SCHEMES: dict[str, dict[str, tuple[int, int | None]]] = {
    "papers": {"train": (500, None), "test": (0, 500)},
    "original": {"train": (1500, None), "eval": (500, 1500), "test": (0, 500)},
}
_SUCCESS_REWARD = 10.0
_MAX_LENGTH = 1 << 20  # characters of an observation or action; official descriptions are far shorter
_NO_PARTS: dict[str, float | bool] = {
    "r_type": 0.0,
    "r_att": 0.0,
    "r_option": 0.0,
    "r_price": 0.0,
    "w_att": 0.0,
    "w_option": 0.0,
    "w_price": 0.0,
    "title_score": 0.0,
    "query_match": False,
    "category_match": False,
}


class WebShopEnv(AgentEnv):
    """Find a product that fits an instruction in a web shop, choose its options and buy it.

    ## Description
    The shop has a search, pages of results, product pages with options, and pages with more about a product. The
    instruction names a kind of product, attributes, options and mostly a price limit. Buying a product ends the
    episode with a score for how well it fits. Page texts, search order, clickable texts and scores are those of the
    official text environment (princeton-nlp/WebShop, 64fa2a5c), without Java and without a server.

    By default the shop is one of 1,665 invented products that comes with the package. The official products are read
    from files: `agent-envs data webshop --download --path DIR`, then `data_dir=DIR`. All environments of a process
    share one shop, so 128 of them take about the memory of one.

    ## Action
    | text | effect |
    |---|---|
    | `search[words]` | shows the results, 50 at most, ten a page; works on every page |
    | `click[text]` | follows a button, a product id or an option value of the page |

    The text is lower-cased. It must start with the verb; what follows the last `]` is ignored. Other texts change
    nothing, use a turn, and are named in `info["refusal"]`:

    | text | refusal |
    |---|---|
    | `search shoes`, empty text | `no_match` |
    | `search[]` | `empty_argument` |
    | `buy[shoes]`, `search[a[b]]`, `x search[a]` | `unknown_verb` |
    | `click[x]` where the page has no `x` | `not_clickable` |
    | a search away from the start page, with `strict_search=True` | `no_search_bar` |

    `info["admissible_actions"]` lists what the page offers, in page order: `search[<your query>]` where it has a
    search bar, buttons, products, option values.

    A query of more than 1,024 characters is cut there. `search[<q> words]` lists the products that were found under
    these words when the catalogue was made, `search[<c> word]` those of a category. Three accidents of the official
    engine are not copied: `<r>` (random products), `<a>` and a bare `<c>` (both crash it) are searched for as plain
    text, and words of its web addresses inside a query (`item_page`) have no effect.

    ## Observation
    The text of the page, its parts joined by ` [SEP] `. `obs_style="verl"` shows only the parts after the instruction,
    in single quotes, as the verl-agent trainer does. An item page does not show which options are chosen, and a
    refused action leaves the text as it is, both as in the official environment.

    ## Reward
    Only a purchase pays. `score = r_type * (attributes + options + price in limit) / (wanted attributes + wanted
    options + 1)`, in [0, 1]. `reward_mode="success"` (default) pays 10 for a score of 1.0 and 0 otherwise, as in the
    GiGPO paper; `"graded"` pays the score. `info["score"]` holds the score in both.

    The parts stand in `info`, all 0 before a purchase: `score = r_type * (w_att * r_att + w_option * r_option +
    w_price * r_price)`, where `r_att` and `r_option` are the shares that match (0 if no option is wanted, `w_option`
    is 0 then) and `r_price` is 1 or 0. The type factor `r_type` (1, 0.5, 0.1 or 0) follows from `query_match`,
    `category_match` and `title_score`, the share of the wanted title's nouns in the bought title.
    `info["noun_source"]` says where these nouns come from: `spacy` as in the official engine, or `rule`;
    `info["noun_agreement"]` is the share of pairs of products with the same type factor (float, 1.0 with spaCy).

    ## Episode end
    `terminated` by a purchase (`success` if the score is 1.0), `truncated` after `max_turns` turns. A finished episode
    keeps its page; the environment never starts another by itself.

    ## Canonical state
    `{"page", "results", "page_no", "asin", "options", "done_score"}`: page or sub page, ids of the found products in
    order, page number, product, sorted pairs of option and value, score of the purchase. Two queries with the same
    results lead to the same state; choosing an option leads to another state although the text stays the same. On the
    start page all but `page` is null.

    ## Tasks and splits
    A task is a goal. `split_scheme="papers"` (default): `test` is goals 0-499, `train` all others, 11,087 goals
    together in the embedded shop. `"original"`: `test` 0-499, `eval` 500-1499, `train` the rest. Ids are
    `webshop/<split>/<index>`.

    `goals="synthetic"` (default) combines a product's instruction with every choice of its options; the official 1,000
    products give 6,910. `goals="human"` takes the instructions that people wrote (12,087 with all official products);
    those of the embedded shop are made in their tone. Prices and limits come from a constant seed, so an index names
    one task in every process, while the official engine draws them anew in each.

    `example_actions()` searches with the instruction, then with the title, pages to the product, chooses and buys; it
    goes on from the current page. It scores 1.0 on every embedded goal. With official products it may score less where
    two options read alike, and it is empty if no search finds the product.

    ## Arguments
    - `max_turns` (15): turns until truncation.
    - `data` (None): `"generated"`, `"small"` (official, 1,000 products) or `"full"` (official, 1.18 million). None is
      `"small"` if a folder is given, else `"generated"`.
    - `data_dir` (None): folder of the official files; None takes the variable `WEBSHOP_DATA`.
    - `goals` ("synthetic"), `split_scheme` ("papers"): see Tasks and splits.
    - `num_products` (None): only the first products.
    - `sampling` ("uniform"): how a reset without `task_index` draws a goal; `"weighted"` draws goals with rare
      attributes more often, as the official environment does.
    - `obs_style` ("official"): see Observation.
    - `reward_mode` ("success"): see Reward.
    - `nouns` ("auto"): `"spacy"`, `"rule"`, or spaCy where it is installed for `data="small"` and the rule elsewhere.
    - `show_attrs` (False): product pages have an Attributes button.
    - `strict_search` (False): refuse searches on pages without a search bar.
    - `split` ("train"), `state_key` ("canonical"), `render_mode` (None): as in every environment.

    ## Version history
    - v0: first version.
    """

    STATE_VERSION: ClassVar[int] = 0
    SPLITS: ClassVar[dict[str, int | str]] = {"train": 10_587, "test": 500}
    SUPPORTS_SNAPSHOT: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_turns: int = 15,
        data: str | None = None,
        data_dir: str | None = None,
        goals: str = "synthetic",
        num_products: int | None = None,
        split_scheme: str = "papers",
        sampling: str = "uniform",
        obs_style: ObservationMode = "official",
        reward_mode: str = "success",
        nouns: str = "auto",
        show_attrs: bool = False,
        strict_search: bool = False,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        for name, value, known in (
            ("split_scheme", split_scheme, tuple(SPLIT_SCHEMES)),
            ("sampling", sampling, SAMPLINGS),
            ("obs_style", obs_style, get_args(ObservationMode)),
            ("reward_mode", reward_mode, REWARD_MODES),
        ):
            if value not in known:
                raise unknown_name(name, value, known)
        choice = choose_shop(data=data, data_dir=data_dir, goals=goals, num_products=num_products, nouns=nouns)
        shop = open_shop(choice)
        self.engine = shop.engine
        """The shared, read-only shop."""
        self._goals = shop.goals
        self._ranges = _goal_ranges(split_scheme, len(self._goals))
        self._splits = {name: len(indices) for name, indices in self._ranges.items()}
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self.obs_style, self.reward_mode, self.sampling = obs_style, reward_mode, sampling
        self.show_attrs, self.strict_search = show_attrs, strict_search
        self._session = self._new_session(0)
        self.observation_space = FreeText(_MAX_LENGTH)
        self.action_space = FreeText(_MAX_LENGTH)

    @property
    def session(self) -> Session:
        """The visit of the shop that is being played; sites show its pages."""
        return self._session

    def _new_session(self, goal_index: int) -> Session:
        return self.engine.session(goal_index, show_attrs=self.show_attrs, strict_search=self.strict_search)

    # ------------------------------------------------------------------ tasks

    def splits(self) -> Mapping[str, int | str]:
        """Return split names with their sizes."""
        return self._splits

    def task_source(self, split: str) -> Any:
        """Return what determines the goals of a split and their scores."""
        indices = self._ranges[split]
        return {
            "name": self.name(),
            "split": split,
            "goals": self._goals.digest,
            "first": indices.start,
            "size": len(indices),
            "nouns": self.engine.nouns.source,
        }

    def _choose_task(self, options: Mapping[str, Any] | None) -> tuple[str, int]:
        split, index = super()._choose_task(options)
        if self.sampling == "weighted" and (options or {}).get("task_index") is None:
            indices = self._ranges[split]
            drawn = -1
            while drawn not in indices:  # the weights are those of all goals: draw until one is of this split
                drawn = self._goals.weighted_index(self.np_random.random())
            index = drawn - indices.start
        return split, index

    def _reset_task(self, split: str, index: int) -> None:
        self._session = self._new_session(self._ranges[split][index])
        self.task = self._session.goal.instruction_text

    # ------------------------------------------------------------------ play

    def _act(self, action: str) -> tuple[float, bool, bool]:
        outcome = self._session.act(action.lower())
        self.refusal = outcome.reason
        if not outcome.done:
            return 0.0, False, outcome.valid
        self.score, self.success = outcome.score, outcome.score == 1.0
        reward = outcome.score if self.reward_mode == "graded" else _SUCCESS_REWARD * self.success
        return reward, True, True

    def _observe(self) -> str:
        return self._session.observation(self.obs_style)

    def _extra_info(self) -> dict[str, Any]:
        parts = dict(_NO_PARTS)
        if (reward := self._session.reward) is not None:
            parts = {name: type(zero)(getattr(reward, name) or 0) for name, zero in _NO_PARTS.items()}
        return {
            **parts,
            "noun_source": self.engine.nouns.source,
            "noun_agreement": self.engine.nouns.agreement,
            "admissible_actions": self._session.available_actions(),
        }

    def canonical_state(self) -> Any:
        """Return page, found products, page number, product, chosen options and the score of a purchase."""
        return self._session.canonical_state()

    def example_actions(self) -> list[str]:
        """Return the walk that buys the goal's product from the current page; empty after a purchase."""
        session = self._session
        try:
            walk = oracle_actions(self.engine, session.goal_index)
        except ValueError:  # no search finds the product
            return []
        state, asin = session.canonical_state(), session.goal.asin
        opening = walk.index(f"click[{asin.lower()}]")
        if state["page"] == "done":
            return []
        if state["asin"] == asin:
            chosen = {f"click[{value}]" for value in session.options.values()}
            back = [] if state["page"] == "item" else [f"click[{pages.PREVIOUS.lower()}]"]
            return back + [action for action in walk[opening + 1 :] if action not in chosen]
        if state["page"] == "results" and asin in state["results"]:
            distance = state["results"].index(asin) // pages.PER_PAGE + 1 - state["page_no"]
            step = pages.NEXT if distance > 0 else pages.PREVIOUS
            return [f"click[{step.lower()}]"] * abs(distance) + walk[opening:]
        if self.strict_search and not session.has_search_bar:
            return [f"click[{pages.BACK.lower()}]", *walk]
        return walk

    # ------------------------------------------------------------------ snapshots

    def _save_state(self) -> Any:
        return self._session.snapshot()

    def _load_state(self, state: Any) -> None:
        if state["goal_index"] != self._session.goal_index:
            raise ValueError(f"goal {state['goal_index']} is not the one of task {self._task_id}")
        self._session.restore(state)


def _goal_ranges(scheme: str, num_goals: int) -> dict[str, range]:
    """Return the goal indices of each split.

    Raises:
        ValueError: If a split would be empty.
    """
    ranges = {
        name: range(first, num_goals if end is None else end) for name, (first, end) in SPLIT_SCHEMES[scheme].items()
    }
    needed = max(indices.start for indices in ranges.values())
    if num_goals <= needed:
        raise ValueError(
            f"split_scheme={scheme!r} needs more than {needed} goals, these products give {num_goals}. "
            "Take more products."
        )
    return ranges
