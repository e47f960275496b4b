"""The WebShop engine beyond the golden records: transitions, keys, snapshots, oracle, shared memory, fixed tasks."""

import copy
import gc
import json
import os
import random
import subprocess
import sys
import threading
import tracemalloc
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_envs.envs.webshop.catalogue import Catalogue
from agent_envs.envs.webshop.engine import Engine
from agent_envs.envs.webshop.goals import NO_PRICE_LIMIT, Goal, Goals, price_limits
from agent_envs.envs.webshop.oracle import oracle_actions
from agent_envs.envs.webshop.reward import option_matches
from agent_envs.envs.webshop.session import MAX_QUERY_LENGTH, PAGES, Session, parse_action

DATA = Path(__file__).parents[1] / "data" / "webshop" / "catalogue_a"


def item(asin: str, **fields: Any) -> dict[str, Any]:
    return {
        "asin": asin,
        "name": f"Lamp {asin}",
        "full_description": "A lamp.",
        "small_description": ["Bright"],
        "pricing": "$15.00",
        "product_category": "Home › Lamps",
        "category": "garden",
        "query": "Lamps",
        "customization_options": "",
        **fields,
    }


def axis(*values: str) -> list[dict[str, Any]]:
    return [{"value": value, "image": None} for value in values]


def shop(*items: dict[str, Any], attributes: tuple[str, ...] = ("bright",)) -> Engine:
    known = {
        record["asin"]: {
            "attributes": list(attributes),
            "instruction": "Find a lamp",
            "instruction_attributes": list(attributes),
        }
        for record in items
    }
    catalogue = Catalogue.from_records(items, known)
    return Engine(catalogue, Goals(catalogue))


@lru_cache
def engine(kind: str = "synthetic") -> Engine:
    catalogue = Catalogue.from_files(DATA, human_goals=True)
    return Engine(catalogue, Goals(catalogue, kind))  # type: ignore[arg-type]


def walk(session: Session, *actions: str) -> Session:
    for action in actions:
        assert session.act(action).valid, action
    return session


def two_lamps() -> Engine:
    options = {"Color": axis("Red", "Blue"), "Size": axis("S", "M", "Blue")}
    return shop(item("B1", customization_options=options), item("B2", customization_options=options))


# Actions


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("search[Red Shoe]", ("search", "red shoe", "")),
        ("search[shoe] trailing", ("search", "shoe", "")),
        ("x search[shoe]", ("x search", "shoe", "")),
        ("search[a[b]]", ("search[a", "b]", "")),
        ("search[[New] x]", ("search[", "new] x", "")),
        ("search[]", ("", "", "empty_argument")),
        ("[shoe]", ("", "", "no_match")),
        ("search", ("", "", "no_match")),
        ("search]", ("", "", "no_match")),
        ("]", ("", "", "no_match")),
        ("", ("", "", "no_match")),
        ("search[a\nb]", ("", "", "no_match")),
        ("click[x]\nsearch[y]", ("click", "x", "")),
        ("[[[" * 3000, ("", "", "no_match")),
    ],
)
def test_parse_action(action: str, expected: tuple[str, str, str]) -> None:
    assert parse_action(action) == expected


def test_parse_action_equals_the_official_pattern() -> None:
    import re

    rng = random.Random(1)
    for _ in range(5000):
        text = "".join(rng.choices("ab[]\n ", k=rng.randrange(9)))
        found = re.match(r"(.+)\[(.+)\]", text)
        assert parse_action(text)[:2] == ((found[1], found[2].lower()) if found else ("", "")), text


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("hello", "no_match"),
        ("search[]", "empty_argument"),
        ("Search[lamp]", "unknown_verb"),
        ("search[a[b]]", "unknown_verb"),
        ("click[buy now]", "not_clickable"),
        ("click[search]", "not_clickable"),
    ],
)
def test_refused_actions_change_nothing(action: str, reason: str) -> None:
    session = two_lamps().session(0)
    before = session.canonical_state(), session.observation(), session.available_actions()
    outcome = session.act(action)
    assert (outcome.valid, outcome.reason, outcome.done, outcome.score, outcome.parts) == (
        False,
        reason,
        False,
        0.0,
        None,
    )
    assert (session.canonical_state(), session.observation(), session.available_actions()) == before


@pytest.mark.parametrize("action", [None, 3, b"search[x]", ["search[x]"]])
def test_actions_that_are_no_text_raise(action: Any) -> None:
    with pytest.raises(TypeError, match="action must be a str"):
        two_lamps().session(0).act(action)


def test_search_of_blanks_finds_nothing() -> None:
    session = walk(two_lamps().session(0), "search[ ]")
    assert "Page 1 (Total results: 0) [SEP] Next >" in session.observation()


@pytest.mark.parametrize(
    "query", ["lamp " * 2000, "x" * 10_000, "日" * 10_000, "[" * 5000 + "lamp" * 1250, "l" * 1_000_000]
)
def test_very_long_queries_are_cut(query: str) -> None:
    session = two_lamps().session(0)
    assert session.act(f"search[{query}]").valid == ("[" not in query)
    assert len(session.query or "") <= MAX_QUERY_LENGTH


def test_special_first_words_fall_back_to_text_search_where_the_official_engine_crashes() -> None:
    session = two_lamps().session(0)
    for query in ("<c>", "<a> lamp", "<r>", "<r> lamp"):
        walk(session, f"search[{query}]")
        assert session.page == "results"
    assert len(session.shown_products()) == 2  # "<r> lamp" is a search for lamps


def test_strict_search_needs_a_search_bar() -> None:
    session = two_lamps().session(0, strict_search=True)
    walk(session, "search[lamp]")
    assert session.act("search[lamp]").reason == "no_search_bar"
    walk(session, "click[back to search]", "search[lamp]")


# Pages


def test_available_actions_are_listed_in_page_order() -> None:
    session = two_lamps().session(0)
    assert session.available_actions() == ["search[<your query>]"]
    walk(session, "search[lamp]")
    assert session.available_actions() == ["click[back to search]", "click[next >]", "click[b1]", "click[b2]"]
    walk(session, "click[B1]")
    assert session.available_actions() == [
        f"click[{name}]"
        for name in "back to search,< prev,description,features,reviews,buy now,red,blue,s,m".split(",")
    ]
    walk(session, "click[buy now]")
    assert session.available_actions() == session.clickables() == []


def test_every_available_action_is_valid_on_random_walks() -> None:
    rng = random.Random(0)
    for number in range(40):
        session = engine().session(rng.randrange(len(engine().goals)), show_attrs=number % 2 == 0)
        walk(session, f"search[{session.goal.query}]")
        for _ in range(25):
            actions = session.available_actions()
            if not actions:
                break
            action = rng.choice(actions).replace("<your query>", "green tea")
            assert session.act(action).valid, action
            assert session.page in PAGES


def test_option_values_that_no_action_can_name_are_not_offered() -> None:
    values = axis("search", "a[b]", "two\nlines", "", "plain", "x]")
    session = walk(shop(item("B1", customization_options={"Color": values})).session(0), "search[lamp]", "click[b1]")
    assert session.available_actions()[-2:] == ["click[plain]", "click[x]]"]
    assert session.act("click[search]").reason == "not_clickable"
    assert session.clickables()[-6:] == ["search", "a[b]", "two\nlines", "", "plain", "x]"]


def test_a_value_on_two_axes_sets_the_last_and_a_value_named_like_a_button_is_the_button() -> None:
    options = {"Color": axis("red", "one"), "Style": axis("one", "features", "next >", "attributes")}
    session = walk(
        shop(item("B1", customization_options=options)).session(0), "search[lamp]", "click[b1]", "click[one]"
    )
    assert session.options == {"style": "one"}
    assert walk(session, "click[features]").page == "features"
    assert walk(session, "click[< prev]", "click[attributes]").page == "attributes"
    assert walk(session, "click[< prev]", "click[next >]").options == {"style": "next >"}


def test_options_stay_on_sub_pages_and_never_leak_to_another_product() -> None:
    session = walk(two_lamps().session(0), "search[lamp]", "click[b1]", "click[red]", "click[reviews]", "click[< prev]")
    assert session.options == {"color": "red"}
    walk(session, "click[< prev]", "click[b2]")
    assert session.options == {}


def test_pages_past_the_end_are_empty_and_lead_back() -> None:
    session = walk(two_lamps().session(0), "search[lamp]", "click[next >]", "click[next >]")
    assert session.shown_products() == []
    assert session.clickables() == ["back to search", "< prev", "next >"]
    walk(session, "click[< prev]", "click[< prev]")
    assert session.page_no == 1
    assert session.act("click[< prev]").reason == "not_clickable"


def test_texts_of_empty_and_marked_up_products() -> None:
    odd = item("B1", name="<b>A & B</b>", full_description="", small_description=["", "one\ttwo ", "\n"])
    session = walk(shop(odd).session(0), "search[b]", "click[b1]")
    assert " [SEP] <b>A & B</b> [SEP] Price: $15.0 [SEP] " in session.observation()
    instruction = f"Instruction: [SEP] {session.goal.instruction_text} [SEP] Back to Search [SEP] < Prev"
    assert walk(session, "click[description]").observation() == instruction
    assert walk(session, "click[< prev]", "click[features]").observation() == f"{instruction} [SEP]  [SEP] one\ttwo"


def test_verl_style_shows_quoted_parts_after_the_instruction() -> None:
    session = two_lamps().session(0)
    assert session.observation("verl") == "'Search'"
    walk(session, "search[lamp]")
    assert session.observation("verl").startswith("'Back to Search' [SEP] 'Page 1 (Total results: 2)' [SEP] 'Next >'")
    walk(session, "click[b1]", "click[buy now]")
    assert session.observation("verl") == session.observation()
    with pytest.raises(ValueError, match="'html'"):
        session.observation("html")  # type: ignore[arg-type]


# Purchase


def test_fault_c6_a_purchase_keeps_its_page_and_its_goal() -> None:
    session = walk(two_lamps().session(0), "search[lamp]", "click[b1]")
    outcome = session.act("click[buy now]")
    assert outcome.done
    assert outcome.parts is not None and outcome.score == outcome.parts.total
    state, text, goal = session.canonical_state(), session.observation(), session.goal
    for action in ("click[buy now]", "click[back to search]", "nonsense"):
        assert not session.act(action).valid
    assert (session.canonical_state(), session.observation(), session.goal) == (state, text, goal)


def test_reward_of_the_exact_item_a_wrong_option_and_a_price_too_high() -> None:
    bought = shop(item("B1", customization_options={"Color": axis("Red", "Green")}))
    goal = bought.goals[0]
    product = bought.catalogue.products[0]
    (wanted,) = goal.goal_options
    assert isinstance(wanted, tuple)
    assert bought.score(product, goal, dict([wanted])).total == 1.0
    other = "green" if wanted[1] == "red" else "red"
    assert bought.score(product, goal, {"color": other}).total == pytest.approx(2 / 3)
    low = Goal.from_json({**as_json(goal), "price_upper": product.price - 0.01})
    assert bought.score(product, low, dict([wanted])).total == pytest.approx(2 / 3)


def as_json(goal: Goal) -> dict[str, Any]:
    return {name: getattr(goal, name) for name in Goal.__slots__} | {"goal_options": dict(goal.goal_options)}  # type: ignore[arg-type]


def test_the_name_of_a_wanted_option_counts_as_in_the_official_engine() -> None:
    engine_ = shop(item("B1", customization_options={"Size": axis('28" x 28"')}))
    goal, product = engine_.goals[0], engine_.catalogue.products[0]
    assert engine_.score(product, goal, {"style": "size"}).n_option == 1


# Canonical state


def test_an_option_click_changes_the_key_though_the_text_is_the_same() -> None:
    session = walk(two_lamps().session(0), "search[lamp]", "click[b1]")
    state, text = session.canonical_state(), session.observation()
    walk(session, "click[red]")
    assert session.observation() == text
    assert session.canonical_state() != state


def test_the_key_knows_what_was_found_and_chosen_not_how() -> None:
    shop_ = two_lamps()
    one = walk(shop_.session(0), "search[lamp]", "click[b1]", "click[red]", "click[m]")
    other = walk(
        shop_.session(0), "search[the lamps]", "click[b1]", "click[m]", "click[blue]", "click[red]", "click[m]"
    )
    assert one.canonical_state() == other.canonical_state()
    assert walk(other, "click[back to search]").canonical_state() == shop_.session(0).canonical_state()


def test_the_key_is_json_with_the_documented_fields() -> None:
    session = walk(two_lamps().session(0), "search[lamp]", "click[b2]", "click[s]", "click[features]")
    assert json.loads(json.dumps(session.canonical_state())) == {
        "page": "features",
        "results": ["B1", "B2"],
        "page_no": 1,
        "asin": "B2",
        "options": [["size", "s"]],
        "done_score": None,
    }
    assert two_lamps().session(0).canonical_state() == dict.fromkeys(
        ("results", "page_no", "asin", "options", "done_score")
    ) | {"page": "index"}


# Snapshots


def test_a_snapshot_restores_every_page() -> None:
    goal_index = 3
    session = engine().session(goal_index)
    visited = [(session.snapshot(), session.canonical_state(), session.observation())]
    for action in oracle_actions(engine(), goal_index):
        walk(session, action)
        visited.append((session.snapshot(), session.canonical_state(), session.observation()))
    other = engine().session(0)
    for snapshot, state, text in visited:
        other.restore(json.loads(json.dumps(snapshot)))
        assert (other.canonical_state(), other.observation(), other.goal_index) == (state, text, goal_index)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"page": "checkout"},
        {"page": "item"},
        {"asin": "NOSUCH"},
        {"goal_index": 10**9},
        {"goal_index": "3"},
        {"options": [["color", "red"]]},
        {"query": None},
        {"page_no": 0},
        {"page_no": "1"},
    ],
)
def test_a_snapshot_that_does_not_fit_is_refused_and_changes_nothing(change: dict[str, Any]) -> None:
    session = walk(engine().session(0), "search[green tea]")
    before = session.canonical_state()
    with pytest.raises(ValueError, match="snapshot does not fit"):
        session.restore({**session.snapshot(), **change})
    assert session.canonical_state() == before


# One task everywhere


def task_table(shop_: Engine) -> list[str]:
    return [f"{goal.instruction_text}|{goal.price_upper}" for goal in shop_.goals]


def test_fault_a3_a_goal_index_names_one_task_whatever_the_random_state_and_the_order_of_instructions() -> None:
    tables = []
    state = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    for seed in (0, 7):
        random.seed(seed)
        records = json.loads((DATA / "items_shuffle_1000.json").read_text())
        instructions = list(json.loads((DATA / "items_ins_v2_1000.json").read_text()).items())
        random.Random(seed).shuffle(instructions)
        before = random.getstate()
        catalogue = Catalogue.from_records(records, instructions)
        goals = Goals(catalogue)
        assert random.getstate() == before
        tables.append(
            ([goal.instruction_text for goal in goals[:20]], [goal.price_upper for goal in goals], goals.digest)
        )
    assert tables[0] == tables[1]
    random.setstate(state[0])
    assert np.random.get_state()[1].tolist() == state[1]  # type: ignore[index]


@pytest.mark.slow
def test_fault_a3_another_process_builds_the_same_task() -> None:
    code = (
        "import sys\n"
        "from agent_envs.envs.webshop.catalogue import Catalogue\n"
        "from agent_envs.envs.webshop.goals import Goals\n"
        "goals = Goals(Catalogue.from_files(sys.argv[1])); print(goals.digest); print(goals[17].instruction_text)"
    )
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(root)}
    out = subprocess.run(
        [sys.executable, "-c", code, str(DATA)], env=env, cwd=root, capture_output=True, text=True, check=True
    )
    goals = Goals(Catalogue.from_files(DATA))
    assert out.stdout.splitlines() == [goals.digest, goals[17].instruction_text]


def test_fault_a5_members_of_a_group_start_in_the_same_state() -> None:
    sessions = [engine().session(5) for _ in range(4)]
    assert len({json.dumps(session.canonical_state()) + session.observation() for session in sessions}) == 1


def test_fault_f6_an_instruction_can_be_gone_back_to() -> None:
    session = walk(engine().session(42), "search[tea]")
    assert engine().session(42).goal == session.goal
    with pytest.raises(IndexError, match=r"goal_index must be in \[0, \d+\), got 1000000"):
        engine().session(1_000_000)
    with pytest.raises(IndexError, match="got -1"):
        engine().session(-1)


def test_another_catalogue_seed_gives_other_limits() -> None:
    one, other = (Goals(Catalogue.from_files(DATA, seed=seed)) for seed in (0, 1))
    assert one.digest != other.digest
    assert [goal.price_upper for goal in one] != [goal.price_upper for goal in other]


@pytest.mark.parametrize(
    ("price", "limits"),
    [
        (9.99, [10, 20, 30, 40]),
        (10.0, [20, 30, 40, 50]),
        (965.0, [970, 980, 990]),
        (985.0, [990]),
        (990.0, []),
        (2000.0, []),
    ],
)
def test_price_limits(price: float, limits: list[float]) -> None:
    assert price_limits(price) == limits


def test_a_product_too_dear_for_a_limit_has_none_in_its_text() -> None:
    goal = shop(item("B1", pricing="$2,000.00")).goals[0]
    assert (goal.price_upper, goal.instruction_text) == (NO_PRICE_LIMIT, "Find a lamp")


def test_goals_are_the_product_of_the_options_with_sorted_names() -> None:
    options = {"Size": axis("S", "M/L", "XL"), "Color": axis("Red", "Blue")}
    goals = shop(item("B1", customization_options=options)).goals
    texts = {goal.instruction_text.split(", and price")[0] for goal in goals}
    assert texts == {
        f"Find a lamp with color: {c}, and size: {s}" for c in ("red", "blue") for s in ("s", "m | l", "xl")
    }
    assert {goal.weight for goal in goals} == {1 / 6}
    assert len(goals[1:3]) == 2


# Oracle


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_the_oracle_buys_the_goal_product(kind: str) -> None:
    shop_ = engine(kind)
    full_scores = 0
    for goal_index in range(0, len(shop_.goals), 13 if kind == "synthetic" else 3):
        session = shop_.session(goal_index)
        *others, last = oracle_actions(shop_, goal_index)
        walk(session, *others)
        outcome = session.act(last)
        assert outcome.done
        assert session.asin == session.goal.asin
        assert outcome.parts is not None
        # Not every wanted option can be met: people want values that the product lacks, and a value with a colour word
        # inside, such as "standard", does not match itself. All that can be met are.
        walk(opened := shop_.session(goal_index), *others[: others.index(f"click[{session.asin.lower()}]") + 1])
        values = [name for name in opened.clickables()[6:] if f"click[{name}]" in opened.available_actions()]
        possible = sum(any(option_matches(value, wanted) for value in values) for wanted in session.goal.goal_options)
        assert outcome.parts.n_option == possible
        assert (outcome.score == 1.0) == (possible == len(session.goal.goal_options))
        full_scores += outcome.score == 1.0
    assert full_scores > 0


def test_the_oracle_names_a_goal_that_cannot_be_bought() -> None:
    shop_ = two_lamps()
    lost = Engine(shop_.catalogue, [Goal.from_json({**as_json(shop_.goals[0]), "asin": "GONE"})])
    with pytest.raises(ValueError, match="no product 'GONE'"):
        oracle_actions(lost, 0)


# Sharing


def test_fault_e5_128_sessions_cost_next_to_nothing_beside_the_shared_shop() -> None:
    shop_ = engine()
    walk(shop_.session(0), "search[green tea]")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        sessions = [walk(shop_.session(number), "search[green tea]", "click[next >]") for number in range(128)]
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert all(session.engine is shop_ for session in sessions)
    assert used < 128 * 4096


def test_sessions_in_threads_share_one_shop() -> None:
    shop_ = two_lamps()
    results: list[list[str]] = []

    def visit(number: int) -> None:
        rng = random.Random(number % 2)
        session, seen = shop_.session(number % 2), []
        for _ in range(100):
            actions = session.available_actions() or ["search[blue lamp]"]
            session.act(rng.choice(actions))
            seen.append(session.observation())
        results.append(seen)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({json.dumps(seen) for seen in results}) == 2


def test_500_sessions_leave_nothing_behind() -> None:
    shop_ = engine()
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(500):
        walk(shop_.session(number), "search[tea]")
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (files, threads)
    assert not [obj for obj in gc.get_objects() if type(obj) is Session]


def test_fault_f4_f5_neither_java_nor_an_index_on_disk_is_needed(tmp_path: Path) -> None:
    assert walk(two_lamps().session(0), "search[lamp]").page == "results"
    assert not {"jnius", "pyserini", "jpype", "py4j", "spacy", "flask"} & {
        name for name, module in sys.modules.items() if module and "webshop" in str(getattr(module, "__file__", ""))
    }
    catalogue = two_lamps().catalogue
    kept = [Engine(catalogue, Goals(catalogue), index_dir=tmp_path) for _ in range(2)]
    assert [path.name for path in tmp_path.iterdir()] == [f"webshop-bm25-{catalogue.digest}"]
    assert [row for shop_ in kept for row in shop_.search.find("lamp")] == [0, 1, 0, 1]


def test_catalogues_are_immutable() -> None:
    product = two_lamps().catalogue.products[0]
    with pytest.raises(AttributeError):
        product.price = 1.0  # type: ignore[misc]
    assert copy.copy(product) == product
