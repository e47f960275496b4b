"""The WebShop site with products that official files may hold: markup in texts, missing fields, odd ids."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("flask", reason="the extra webshop (flask) is not installed")

from webshop_shopper import Shopper

from agent_envs.envs.webshop.nouns import TitleNouns
from agent_envs.envs.webshop.site.app import create_app
from agent_envs.envs.webshop.site.visits import ShopSettings

NASTY = '<script>alert("x")</script> & <b>bold</b>'


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write official files with products that lack fields, and with markup in every text."""
    folder = tmp_path_factory.mktemp("odd")
    many = {axis: [{"value": f"{axis}{i}"} for i in range(8)] for axis in ("one", "two", "three")}
    products = [
        {"asin": "B000000001", "name": f"Lamp {NASTY}", "full_description": NASTY, "small_description": [NASTY, ""]}
        | {"pricing": "$5.00$9.00", "product_category": f"Home › {NASTY}", "category": "garden", "query": "lamp"}
        | {"customization_options": {f"Color{NASTY}": [{"value": "red"}, {"value": NASTY}, {"value": "a[b"}]}},
        {"asin": "B000000002", "query": "lamp", "small_description": "Lamp"},
        {"asin": 'B/../<>&"', "name": "Lamp of glass", "query": "lamp", "customization_options": {"Color": None}},
        {"asin": "B000000004", "name": "Lamp set", "query": "lamp", "customization_options": many},
    ]
    wanted = {"attributes": ["bright"], "instruction": f"find {NASTY}", "instruction_attributes": ["bright"]}
    (folder / "items_shuffle_1000.json").write_text(json.dumps(products), encoding="utf-8")
    (folder / "items_ins_v2_1000.json").write_text(json.dumps({"B000000004": wanted}), encoding="utf-8")
    return folder


@pytest.fixture
def odd(odd_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shopper:
    # Where spaCy is installed it would tag the titles, which takes seconds and a folder outside the test's.
    monkeypatch.setattr(TitleNouns, "best", lambda titles, cache_dir: TitleNouns.by_rule())
    shopper = Shopper(create_app(ShopSettings(data="small", data_dir=str(odd_folder), split="test", task_index=0)))
    shopper.open()
    return shopper


def test_markup_in_products_is_shown_as_text(odd):
    odd.search("lamp")
    assert "4 products" in odd.text
    pages = [
        odd.page,
        odd.press("click[b000000001]"),
        odd.press("click[red]"),
        odd.press(f"click[{NASTY.replace('/', ' | ')}]"),
    ]
    for name in ("description", "features", "reviews"):
        pages += [odd.press(f"click[{name}]"), odd.press("click[< prev]")]
    pages.append(odd.press("click[buy now]"))
    for page in pages:
        assert "<script" not in page and "<b>bold" not in page
    assert all("alert(&#34;x&#34;)" in page for page in pages)


def test_values_that_no_action_can_name_are_disabled(odd):
    odd.search("lamp")
    odd.press("click[b000000001]")
    assert re.search(r"disabled>[^<]*(<svg.*?</svg>)?\s*a\[b", odd.page, re.DOTALL)
    odd.send({"action": "click[a[b]"})
    assert "not on this page" in odd.text


def test_products_without_title_price_options_or_category_work(odd):
    odd.search("lamp")
    odd.press("click[b000000002]")
    assert "B000000002" in odd.text and "$100.00" in odd.text
    odd.press("click[description]")
    assert "The maker says nothing here" in odd.text
    odd.press("click[< prev]")
    odd.press("click[< prev]")
    odd.press('click[b/../<>&"]')
    assert "Lamp of glass" in odd.text
    odd.press("click[buy now]")
    assert "How the score adds up" in odd.text


def test_a_missing_data_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="items_shuffle_1000.json"):
        create_app(ShopSettings(data="small", data_dir=str(tmp_path)))


@pytest.mark.parametrize("place", ["0-0", "0-99999"])
def test_a_picture_is_served(odd, place):
    response = odd.client.get(f"/pictures/x/{place}.svg")
    assert response.status_code == 200 and response.data.startswith(b"<svg")


@pytest.mark.parametrize("place", ["4-0", "x-0", "-1-0", "9" * 6000 + "-0", "²-0", "0-0x"])
def test_pictures_that_do_not_exist_are_404(odd, place):
    assert odd.client.get(f"/pictures/x/{place}.svg").status_code == 404
