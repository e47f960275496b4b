"""Data files of the shop: what is missing, truncated or of a wrong type is named; what may be absent reads as empty."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_envs.envs.webshop import json_stream
from agent_envs.envs.webshop.catalogue import Catalogue
from agent_envs.envs.webshop.engine import Engine
from agent_envs.envs.webshop.fuzzy import token_set_ratio
from agent_envs.envs.webshop.goals import Goal, Goals

DATA = Path(__file__).parents[1] / "data" / "webshop" / "catalogue_a"
ITEM = {"asin": "B1", "name": "Lamp", "category": "garden", "query": "lamps", "product_category": "Home"}


def load(**fields: Any) -> Catalogue:
    return Catalogue.from_records([{**ITEM, **fields}], {"B1": {"instruction": "i", "instruction_attributes": ["a"]}})


def write(folder: Path, products: str, instructions: str = "{}") -> Path:
    (folder / "items_shuffle_1000.json").write_text(products, encoding="utf-8")
    (folder / "items_ins_v2_1000.json").write_text(instructions, encoding="utf-8")
    return folder


# Files


@pytest.mark.parametrize("lost", ["items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"])
def test_a_missing_file_is_named_with_the_way_to_get_it(tmp_path: Path, lost: str) -> None:
    for file in DATA.iterdir():
        if file.name != lost:
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(FileNotFoundError, match=rf"{lost}.*agent-envs data webshop --download.*data_dir"):
        Catalogue.from_files(tmp_path, human_goals=True)


def test_the_file_of_human_goals_is_needed_for_human_goals_only(tmp_path: Path) -> None:
    write(tmp_path, json.dumps([ITEM]))
    assert len(Catalogue.from_files(tmp_path)) == 1


def test_the_full_set_has_its_own_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="items_shuffle.json"):
        Catalogue.from_files(write(tmp_path, json.dumps([ITEM])), full=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "[",
        '[{"asin": "B1"',
        '[{"asin": "B1"}',
        '[{"asin": "B1"},',
        '[{"asin": "B1"} {}]',
        '{"asin": 1}',
        "[nul",
        "[" * 9999,
    ],
)
def test_truncated_products_are_named_with_the_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"items_shuffle_1000.json is not complete JSON: .* at character \d+"):
        Catalogue.from_files(write(tmp_path, text))


@pytest.mark.parametrize("text", ["", "{", '{"B1"', '{"B1": ', '{"B1": {}', '{"B1": {},', "[]", "{1: 2}", '{"B1" 2}'])
def test_truncated_instructions_are_named_with_the_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"items_ins_v2_1000.json is not complete JSON: .* at character \d+"):
        Catalogue.from_files(write(tmp_path, json.dumps([ITEM]), text))


def test_a_file_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    write(tmp_path, "[]")
    (tmp_path / "items_shuffle_1000.json").write_bytes(b'[{"asin": "\xff\xfe"}]')
    with pytest.raises(ValueError, match="items_shuffle_1000.json.*UTF-8"):
        Catalogue.from_files(tmp_path)


def test_files_are_read_in_small_pieces_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Catalogue.from_files(DATA, human_goals=True)
    monkeypatch.setattr(json_stream, "_CHUNK", 977)
    assert Catalogue.from_files(DATA, human_goals=True).digest == whole.digest
    values = [{"a": [12, -3.5e2, None]}, 'b\u00e9\n"]', [], {}, [True, {"c": "}"}]]
    (tmp_path / "x.json").write_text(json.dumps(values))
    for size in (1, 2, 3, 5):
        monkeypatch.setattr(json_stream, "_CHUNK", size)
        assert list(json_stream.iter_list(tmp_path / "x.json")) == values


def test_only_the_wanted_products_of_a_large_file_are_read(tmp_path: Path) -> None:
    write(tmp_path, json.dumps([ITEM, {**ITEM, "asin": "B2"}])[:-20])
    assert [product.asin for product in Catalogue.from_files(tmp_path, num_products=1)] == ["B1"]


def test_empty_files_give_an_empty_shop_and_a_clear_word_about_goals(tmp_path: Path) -> None:
    catalogue = Catalogue.from_files(write(tmp_path, "[]"))
    with pytest.raises(ValueError, match="0 products gives no synthetic goal"):
        Goals(catalogue)
    with pytest.raises(ValueError, match="'robot'"):
        Goals(catalogue, "robot")  # type: ignore[arg-type]
    assert Engine(catalogue, []).search.find("lamp") == ()


# Products


def test_skipped_products() -> None:
    records = [ITEM, {**ITEM, "name": "again"}, {**ITEM, "asin": "nan"}, {**ITEM, "asin": "B0123456789"}]
    assert [product.title for product in Catalogue.from_records(records)] == ["Lamp"]


@pytest.mark.parametrize("field", ["name", "full_description", "category", "query", "product_category", "pricing"])
def test_text_may_be_absent_or_null_but_of_no_other_type(field: str) -> None:
    without = {key: value for key, value in ITEM.items() if key != field}
    for record in (without, {**ITEM, field: None}):
        (product,) = Catalogue.from_records([record])
        shop = Engine(Catalogue.from_records([record]), [])
        assert shop.search.find("x") == ()
        assert product.price == 100.0
    with pytest.raises(ValueError, match=rf"product 0 \(asin 'B1'\): '{field}' must be text, got 3"):
        load(**{field: 3})


@pytest.mark.parametrize("record", [None, "text", [], {"asin": None}, {"asin": 5}, {}])
def test_a_record_without_asin_is_named_by_its_place(record: Any) -> None:
    with pytest.raises(ValueError, match="product 1"):
        Catalogue.from_records([ITEM, record])


@pytest.mark.parametrize(
    ("pricing", "text", "prices"),
    [
        ("", "$100.0", (100.0, 100.0)),
        (None, "$100.0", (100.0, 100.0)),
        ("$3.00", "$3.0", (3.0, 3.0)),
        ("$1,299.00", "$1299.0", (1299.0, 1299.0)),
        ("$19.999", "$19.999", (19.999, 19.999)),
        ("$3.00$9.00", "$3.0 to $9.0", (3.0, 9.0)),
        ("$3.00 - $9.00", "$3.0 to $9.0", (3.0, 9.0)),
        ("$9.00$3.00$1.00", "$9.0 to $3.0", (3.0, 9.0)),
    ],
)
def test_prices(pricing: str | None, text: str, prices: tuple[float, float]) -> None:
    (product,) = load(pricing=pricing)
    assert product.price_text == text
    assert prices[0] <= product.price <= prices[1]


@pytest.mark.parametrize("pricing", ["12.00", "$", "$free", "$1.2.3", "$.", "free"])
def test_unreadable_prices_are_named(pricing: str) -> None:
    with pytest.raises(ValueError, match=r"'pricing' must be empty or amounts such as"):
        load(pricing=pricing)


def test_a_drawn_price_is_constant_and_can_be_given() -> None:
    (first,), (second,) = load(pricing="$3$9"), load(pricing="$3$9")
    assert first.price == second.price
    ranged = {**ITEM, "pricing": "$3$9"}
    (given,) = Catalogue.from_records([ranged], prices={"B1": 4.25, "B2": 1.0})
    assert given.price == 4.25
    assert Catalogue.from_records([ranged]).digest != Catalogue.from_records([ranged], prices={"B1": 4.25}).digest


def test_options_are_normalised() -> None:
    options = {"Color": [{"value": " Mint/Green "}], "Gone": None, "Empty": [], "COLOR": [{"value": "Éclair"}]}
    (product,) = load(customization_options=options)
    assert product.options == (("color", ("éclair",)), ("empty", ()))


@pytest.mark.parametrize(
    "options",
    ["red", ["red"], {"Color": "red"}, {"Color": ["red"]}, {"Color": [{"value": 3}]}, {"Color": [{}]}],
)
def test_wrong_options_are_named(options: Any) -> None:
    with pytest.raises(ValueError, match="'customization_options' must be"):
        load(customization_options=options)


@pytest.mark.parametrize(
    ("value", "bullets"), [("one", ("one",)), (["a", ""], ("a", "")), ([], ()), (None, ()), ("", ("",))]
)
def test_bullets(value: Any, bullets: tuple[str, ...]) -> None:
    (product,) = load(small_description=value)
    assert product.bullets == bullets


@pytest.mark.parametrize("value", [3, {"a": 1}, ["a", None]])
def test_wrong_bullets_are_named(value: Any) -> None:
    with pytest.raises(ValueError, match="'small_description' must be a list of texts"):
        load(small_description=value)


def test_any_unicode_survives() -> None:
    name = "日本 \u0000 \u202e é\u0301 \ud83d\ude00 ﷺ"
    catalogue = load(name=name, customization_options={"İ": [{"value": "ẞ Σ"}]})
    session = Engine(catalogue, Goals(catalogue)).session(0)
    assert session.act(f"search[{name}]").valid
    assert name in session.observation()
    assert session.act("click[b1]").valid
    assert session.act("click[ß σ]").valid or session.act("click[ß ς]").valid


# Instructions and goals


@pytest.mark.parametrize(
    ("record", "count"),
    [
        ({}, 0),
        ({"instruction": None, "instruction_attributes": ["a"]}, 0),
        ({"instruction": "i", "instruction_attributes": []}, 0),
        ({"instruction": "i"}, 0),
        ({"instruction": "i", "instruction_attributes": ["a"]}, 1),
    ],
)
def test_which_products_have_synthetic_goals(record: dict[str, Any], count: int) -> None:
    other = {"B2": {"instruction": "i", "instruction_attributes": ["a"]}}
    catalogue = Catalogue.from_records([ITEM, {**ITEM, "asin": "B2"}], {"B1": record, "unknown": 3, **other})
    assert sum(goal.asin == "B1" for goal in Goals(catalogue)) == count


def test_attributes_are_a_placeholder_where_none_are_known() -> None:
    (product,) = Catalogue.from_records([ITEM], {"B1": {}})
    assert product.attributes == ("DUMMY_ATTR",)


@pytest.mark.parametrize("record", [3, {"attributes": "a"}, {"instruction": 3}, {"instruction_attributes": [3]}])
def test_wrong_instructions_are_named(record: Any) -> None:
    with pytest.raises(ValueError, match="instructions of 'B1'"):
        Catalogue.from_records([ITEM], {"B1": record})


@pytest.mark.parametrize("record", [3, [3], [{"instruction": 3}]])
def test_wrong_human_instructions_are_named(record: Any) -> None:
    with pytest.raises(ValueError, match="human instruction"):
        Catalogue.from_records([ITEM], {}, {"B1": record})


def test_human_instructions_without_attributes_give_no_goal_and_dots_are_stripped() -> None:
    human = [
        {"instruction": "none", "instruction_attributes": [], "instruction_options": []},
        {"instruction": "..i need a lamp..", "instruction_attributes": ["bright"], "instruction_options": ["red"]},
    ]
    (goal,) = Goals(Catalogue.from_records([{**ITEM, "pricing": "$2,000"}], {}, {"B1": human}), "human")
    assert (goal.instruction_text, goal.goal_options, goal.weight) == ("i need a lamp", ("red",), 1.0)


@pytest.mark.parametrize(("field", "value"), [("attributes", []), ("price_upper", 0), ("price_upper", -1.0)])
def test_goals_that_cannot_be_scored_are_refused(field: str, value: Any) -> None:
    goal = Goals(load())[0]
    record = {name: getattr(goal, name) for name in Goal.__slots__} | {field: value, "goal_options": []}
    with pytest.raises(ValueError, match=field):
        Goal.from_json(record)


# Fuzzy ratio


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [("", "", 0), ("é", "é", 0), ("red shoe", "shoe red red", 100), ("wide", "8.5 wide", 100), ("abc", "abd", 67)],
)
def test_token_set_ratio(a: str, b: str, ratio: int) -> None:
    assert token_set_ratio(a, b) == ratio


def test_token_set_ratio_equals_thefuzz() -> None:
    import random

    fuzz = pytest.importorskip("thefuzz.fuzz")
    rng = random.Random(0)
    for _ in range(5000):
        a, b = ("".join(rng.choices("abcde é日Σİ½ .-1", k=rng.randrange(14))) for _ in range(2))
        assert token_set_ratio(a, b) == fuzz.token_set_ratio(a, b), (a, b)
