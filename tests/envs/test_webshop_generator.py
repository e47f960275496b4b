"""The embedded shop: believable, solvable, and the same bytes everywhere."""

import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from agent_envs.envs.webshop import generator_words
from agent_envs.envs.webshop.catalogue import Catalogue
from agent_envs.envs.webshop.engine import Engine
from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.generator import (
    PRODUCTS_PER_KIND,
    Records,
    generate_records,
    generated_catalogue,
    write_official_files,
)
from agent_envs.envs.webshop.generator_words import DEPARTMENTS, Draws, load_words
from agent_envs.envs.webshop.goals import GoalKind, Goals
from agent_envs.envs.webshop.nouns import TitleNouns
from agent_envs.envs.webshop.oracle import oracle_actions

# Changes with any product, price or limit: then raise GENERATOR_VERSION and update the numbers in the documentation.
CATALOGUE_DIGEST = "007119cc62f7e31fd20d2979f3f91a19"
GOALS_DIGEST = {"synthetic": "bb428993b2dcedb6d3e8f12da1887bad", "human": "14df4805c0e4d788e9f4bcd827ee21c0"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return generated_catalogue()


@pytest.fixture(scope="module")
def records() -> Records:
    return generate_records()


@pytest.fixture(scope="module")
def engines(catalogue: Catalogue) -> dict[str, Engine]:
    kinds: tuple[GoalKind, ...] = ("synthetic", "human")
    return {kind: Engine(catalogue, Goals(catalogue, kind)) for kind in kinds}


# The same everywhere


def test_products_and_goals_are_those_of_every_other_process(catalogue: Catalogue, engines: dict[str, Engine]) -> None:
    assert catalogue.digest == CATALOGUE_DIGEST
    for kind, engine in engines.items():
        goals = engine.goals
        assert isinstance(goals, Goals)
        assert goals.digest == GOALS_DIGEST[kind]


def test_records_do_not_depend_on_the_global_generators(records: Records) -> None:
    random.seed(7)
    np.random.seed(7)
    assert json.dumps(generate_records().products) == json.dumps(records.products)
    assert random.random() == random.Random(7).random(), "a global generator was used"


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "41"])
def test_another_process_makes_the_same_bytes(hash_seed: str) -> None:
    code = "from agent_envs.envs.webshop.generator import generated_catalogue as g; print(g().digest)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
        check=True,
    )
    assert done.stdout.strip() == CATALOGUE_DIGEST


def test_numbers(catalogue: Catalogue, records: Records, engines: dict[str, Engine]) -> None:
    assert len(catalogue) == 1_665
    assert len(records.products) == len(catalogue), "an id occurs twice"
    assert len(engines["synthetic"].goals) == WebShopEnv.SPLITS["train"] + WebShopEnv.SPLITS["test"] == 11_087
    assert len(engines["human"].goals) >= 2_000
    assert set(Counter(product.query for product in catalogue).values()) == {PRODUCTS_PER_KIND}


def test_written_files_load_as_the_same_shop(catalogue: Catalogue, tmp_path: Path) -> None:
    write_official_files(tmp_path)
    assert Catalogue.from_files(tmp_path, human_goals=True).digest == catalogue.digest


# Believable


def test_ids_prices_and_categories_have_the_official_forms(catalogue: Catalogue) -> None:
    for product in catalogue:
        assert re.fullmatch(r"B0\d{8}", product.asin)
        assert 3 <= len(product.product_category.split(" › ")) <= 5
        assert product.category in DEPARTMENTS
        assert 3.0 <= product.price <= 4_000.0
    ranges = sum(" to " in product.price_text for product in catalogue) / len(catalogue)
    absent = sum(product.price_text == "$100.0" for product in catalogue) / len(catalogue)
    assert 0.25 < ranges < 0.4
    assert 0.07 < absent < 0.14


def test_option_prices_span_the_price_range(records: Records) -> None:
    dearer = 0
    for record in records.products:
        parts = [float(part.replace(",", "")) for part in record["pricing"].split("$")[1:]]
        values = [value for values in record["customization_options"].values() for value in values]
        prices = [float(value["price_string"][1:].replace(",", "")) for value in values if value["price_string"]]
        if len(parts) == 2:
            assert [min(prices), max(prices)] == parts
            dearer += parts[1] > parts[0]
        else:
            assert not prices
    assert dearer > 400


def test_titles_are_different_and_every_text_is_whole(catalogue: Catalogue) -> None:
    assert len({product.title for product in catalogue}) == len(catalogue)
    for product in catalogue:
        for text in (product.title, product.description, *product.bullets, product.instruction or ""):
            assert text and text == " ".join(text.split())
            assert not re.search(r"[{}\0\[\]]| [,.;]", text), text
        assert 15 <= len(product.title) <= 160
        for sentence in (product.description, *product.bullets):
            assert sentence[0].isupper() or not sentence[0].isalpha(), sentence
            assert sentence.endswith("."), sentence


def test_every_wanted_attribute_stands_on_the_product_page_of_its_goal(catalogue: Catalogue) -> None:
    for product in catalogue:
        shown = " ".join((product.title, product.description, *product.bullets)).lower()
        assert 1 <= len(product.instruction_attributes) <= 3
        assert set(product.instruction_attributes) <= set(product.attributes)
        assert all(attribute in shown for attribute in product.attributes)


def test_awkward_values_occur(catalogue: Catalogue) -> None:
    values = {value for product in catalogue for _, values in product.options for value in values}
    assert any(" | " in value for value in values)
    assert any('"' in value for value in values) and any("'" in value for value in values)
    assert any(not value.isascii() for value in values)
    assert any("™" in product.title for product in catalogue)


def test_options_can_be_named_and_belong_to_one_axis(catalogue: Catalogue) -> None:
    buttons = {"back to search", "< prev", "next >", "description", "features", "reviews", "attributes", "buy now"}
    for product in catalogue:
        values = [value for _, values in product.options for value in values]
        assert len(set(values)) == len(values)
        assert not set(values) & (buttons | {"search"})


# Solvable


def test_a_search_for_the_title_finds_the_product_first(catalogue: Catalogue, engines: dict[str, Engine]) -> None:
    search = engines["synthetic"].search
    sample = range(0, len(catalogue), 9)
    found = sum(search.find(catalogue.products[row].title.lower())[0] == row for row in sample)
    assert found / len(sample) > 0.97


def test_a_search_for_the_kind_finds_all_products_of_it(catalogue: Catalogue, engines: dict[str, Engine]) -> None:
    search = engines["synthetic"].search
    for query in {product.query for product in catalogue}:
        rows = search.find(query)
        kind = {row for row, product in enumerate(catalogue) if product.query == query}
        assert kind <= set(rows), query
        assert len(kind & set(rows[:10])) >= 2, query


def buy(engine: Engine, goal_index: int) -> tuple[float, int]:
    session = engine.session(goal_index)
    actions = oracle_actions(engine, goal_index)
    outcomes = [session.act(action) for action in actions]
    assert all(outcome.valid for outcome in outcomes)
    return outcomes[-1].score, len(actions)


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_the_oracle_scores_full_marks(engines: dict[str, Engine], kind: str) -> None:
    engine = engines[kind]
    for goal_index in range(0, len(engine.goals), len(engine.goals) // 80):
        score, length = buy(engine, goal_index)
        assert score == 1.0, engine.goals[goal_index]
        assert length <= 15


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_the_oracle_scores_full_marks_on_every_goal(engines: dict[str, Engine], kind: str) -> None:
    engine = engines[kind]
    results = [buy(engine, goal_index) for goal_index in range(len(engine.goals))]
    assert {score for score, _ in results} == {1.0}
    assert max(length for _, length in results) <= 15


@pytest.mark.slow
def test_the_oracle_scores_full_marks_with_the_nouns_of_spacy(catalogue: Catalogue) -> None:
    pytest.importorskip("spacy")
    nouns = TitleNouns.by_spacy(product.title for product in catalogue)
    engine = Engine(catalogue, Goals(catalogue), nouns=nouns)
    assert all(buy(engine, goal_index)[0] == 1.0 for goal_index in range(0, len(engine.goals), 5))


def test_buying_at_random_among_the_results_does_not_solve_the_shop(engines: dict[str, Engine]) -> None:
    engine = engines["synthetic"]
    scores = []
    for goal_index in range(200):
        goal = engine.goals[goal_index]
        first = engine.catalogue.products[engine.search.find(goal.query)[0]]
        scores.append(engine.score(first, goal, {}).total)
    assert 0.2 < sum(scores) / len(scores) < 0.8
    assert sum(score == 1.0 for score in scores) < 20


# Word lists


def read(name: str) -> dict:
    return json.loads((generator_words._FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_limits_and_clashes_name_kinds_and_attributes_that_exist() -> None:
    for department in map(read, DEPARTMENTS):
        for pool, attributes in department["pools"].items():
            families = [family for family in department["families"] if family["pool"] == pool]
            names = {text.split("|")[0] for family in families for text in family["types"]}
            for attribute, text in attributes.items():
                limit = text.partition(" @ ")[2]
                assert set(filter(None, limit.removeprefix("-").split(","))) <= names, (pool, attribute)
        known = {attribute for attributes in department["pools"].values() for attribute in attributes}
        assert all(set(clash) <= known and len(clash) > 1 for clash in department["clashes"])


def test_every_kind_has_enough_to_choose_from() -> None:
    for family in load_words().families:
        assert len(family.brands) >= PRODUCTS_PER_KIND
        for kind in family.kinds:
            assert len(kind.attributes) >= 4, kind.name
        for axis in family.axes:
            assert 1 <= axis.fewest <= axis.most <= len(axis.values), (family.path, axis.name)


def test_no_product_has_two_clashing_attributes(catalogue: Catalogue) -> None:
    clashes = {category: [set(group) for group in read(category)["clashes"]] for category in DEPARTMENTS}
    for product in catalogue:
        for group in clashes[product.category]:
            assert len(group & set(product.attributes)) <= 1, product.title


def test_draws() -> None:
    draws = Draws("x")
    assert Draws("x").sample("abcdef", 3) == Draws("x").sample("abcdef", 3) != Draws("y").sample("abcdef", 3)
    assert sorted(draws.sample("abc", 9)) == ["a", "b", "c"]
    assert draws.in_order("abcdef", 6) == list("abcdef")
    assert {draws.between(2, 4) for _ in range(100)} == {2, 3, 4}
    prices = [draws.log_normal(20.0, 0.5) for _ in range(2000)]
    assert 18.5 < sorted(prices)[1000] < 21.5
