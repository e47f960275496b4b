"""The WebShop for people: the walk through its pages, its recordings, and everything a browser may send wrongly."""

import html
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flask", reason="the extra webshop (flask) is not installed")

from webshop_shopper import Shopper, oracle, walk

from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.generator import generated_catalogue
from agent_envs.envs.webshop.site import pictures, visits
from agent_envs.envs.webshop.site.app import COOKIE, MAX_BODY_BYTES, create_app
from agent_envs.envs.webshop.site.record import read_visit, replay_visit
from agent_envs.envs.webshop.site.views import dollars
from agent_envs.envs.webshop.site.visits import ShopFullError, ShopSettings, Visits, search_action

NASTY = '<script>alert("x")</script> & <b>bold</b>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "visits"
    path.mkdir()
    return path


@pytest.fixture
def app(folder: Path) -> Any:
    return create_app(ShopSettings(split="test", task_index=3, record_dir=folder))


@pytest.fixture
def shopper(app: Any) -> Shopper:
    shopper = Shopper(app)
    shopper.open()
    return shopper


# ---------------------------------------------------------------------- the walk


def test_a_winning_walk_scores_one_and_replays(shopper, folder):
    actions = oracle(3)
    walk(shopper, actions)
    assert "Exactly what was asked for" in shopper.text and "1.00" in shopper.text
    (path,) = folder.iterdir()
    assert path.name in shopper.text
    _, turns = read_visit(path)
    assert [turn.action for turn in turns] == actions
    assert [step.turn for step in replay_visit(path)] == turns and turns[-1].score == 1.0


def test_every_page_of_a_visit(shopper):
    env = WebShopEnv()
    env.reset(options={"split": "test", "task_index": 3})
    goal = env.engine.goals[3]
    assert goal.instruction_text in shopper.text and "Browse departments" in shopper.text
    assert 'id="home-query"' in shopper.page and "autofocus" in shopper.page

    shopper.search(goal.query)
    assert "50 products" in shopper.text and goal.query in shopper.text and "Page 1 of 5" in shopper.text
    first = [action for action in shopper.buttons() if action.startswith("click[b0")]
    assert len(first) == 10
    shopper.press("click[next >]")
    assert "Page 2 of 5" in shopper.text
    shopper.press("click[< prev]")
    assert [action for action in shopper.buttons() if action.startswith("click[b0")] == first

    shopper.press(first[0])
    catalogue = generated_catalogue()
    product = catalogue.products[catalogue.row(first[0][6:-1].upper())]
    assert product.title in shopper.text and dollars(product.price_text) in shopper.text
    assert all(value in shopper.text for _, values in product.options for value in values)
    for name, content in (("description", product.description), ("features", product.bullets[0])):
        shopper.press(f"click[{name}]")
        assert content in shopper.text
        shopper.press("click[< prev]")
    shopper.press("click[reviews]")
    assert "Nobody has written a review yet" in shopper.text
    shopper.press("click[< prev]")
    shopper.press("click[< prev]")
    shopper.press("click[back to search]")
    assert "Browse departments" in shopper.text
    shopper.press("search[<c> grocery]")
    assert "280 products" in shopper.text and "of this department" in shopper.text


def test_choosing_an_option_marks_it_and_changes_the_picture(shopper):
    action, axis_values = None, ()
    for step in oracle(3)[:-1]:
        if step.startswith("click[") and "aria-pressed" in shopper.buttons().get(step, ""):
            action = step
            break
        walk(shopper, [step])
    assert action is not None
    catalogue = generated_catalogue()
    product = catalogue.products[catalogue.row(re.search(r"\b(B0\d{8})\b", shopper.text)[1])]
    axis_values = dict(product.options)[pictures.colour_axis(product)]
    other = f"click[{axis_values[-1]}]"
    picture = re.search(r'class="picture"><img src="([^"]+)"', shopper.page)[1]
    assert 'aria-pressed="true"' not in shopper.page
    shopper.press(other)
    assert 'aria-pressed="true"' in shopper.buttons()[other] and "autofocus" in shopper.buttons()[other]
    assert re.search(r'class="picture"><img src="([^"]+)"', shopper.page)[1] != picture
    assert shopper.page.count('aria-pressed="true"') == 1


def test_score_page_shows_what_was_missed(shopper):
    kept = ("search[", "click[b0", "click[next >]", "click[buy now]")
    walk(shopper, [action for action in oracle(3) if action.startswith(kept)])
    parts = {"options": re.search(r"(\d) of (\d) chosen", shopper.text)}
    assert parts["options"][1] == "0" and "Missed:" in shopper.text and "No options chosen" in shopper.text
    shown = float(re.search(r"Score\s+([\d.]+)", shopper.text)[1])
    assert 0 < shown < 1


def test_without_a_task_each_visit_draws_one(tmp_path):
    shopper = Shopper(create_app())
    shopper.open()
    tasks = {re.search(r'class="task".*?<p>(.*?)</p>', shopper.page, re.DOTALL)[1]}
    for _ in range(5):
        shopper.send({}, url="/visits")
        tasks.add(re.search(r'class="task".*?<p>(.*?)</p>', shopper.page, re.DOTALL)[1])
    assert len(tasks) > 1 and "New task" in shopper.text


def test_the_start_leads_back_to_the_last_visit(shopper):
    shopper.search("boots")
    shopper.open("/")
    assert shopper.turn == 1 and "boots" in shopper.text


def test_a_visit_ends_after_its_steps(folder):
    shopper = Shopper(create_app(ShopSettings(split="test", task_index=3, record_dir=folder, max_turns=2)))
    shopper.open()
    shopper.search("boots")
    shopper.search("shoes")
    assert "all 2 steps are used" in shopper.text and all("disabled" in rest for rest in shopper.buttons().values())
    shopper.search("hats")
    assert shopper.turn == 2 and "This visit has ended" in shopper.text
    (path,) = folder.iterdir()
    assert read_visit(path)[1][-1].truncated and len(replay_visit(path)) == 2


# ---------------------------------------------------------------------- what a browser may send


@pytest.mark.parametrize("words", ["", "   ", "[]", "[[ ]]", "\n\r\t"])
def test_an_empty_search_is_explained_and_uses_no_step(shopper, words):
    shopper.search(words)
    assert shopper.status == 200 and shopper.turn == 0 and "Type what you are looking for" in shopper.text


@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ("a[b[c]]", "search[a b c]"),
        ("red\nshoes", "search[red shoes]"),
        ("click[buy now]", "search[click buy now]"),
        ("crème brûlée 靴 👢", "search[crème brûlée 靴 👢]"),
        ("x" * 10_000, f"search[{'x' * 1024}]"),
        ("nul\x00byte", "search[nul\x00byte]"),
        ("<r> anything", "search[<r> anything]"),
    ],
)
def test_any_text_can_be_searched_for(shopper, folder, typed, action):
    assert search_action(typed) == action
    shopper.search(typed)
    assert shopper.status == 200 and shopper.turn == 1
    (path,) = folder.iterdir()
    assert read_visit(path)[1][0].action == action
    assert replay_visit(path)[0].turn.action == action


def test_a_search_box_shows_the_words_escaped(shopper):
    shopper.search(NASTY)
    assert "<script" not in shopper.page and "<b>bold" not in shopper.page
    assert NASTY.lower() in html.unescape(re.search(r'name="query"[^>]*value="([^"]*)"', shopper.page)[1])


@pytest.mark.parametrize(
    "action", ["click[buy now]", "click[search]", "buy[x]", "", "search[x]", "click[B0", "x" * 5000, "click[\x00]"]
)
def test_an_action_that_is_not_on_the_page_is_explained_and_uses_no_step(shopper, action):
    shopper.send({"action": action})
    assert shopper.status == 200 and shopper.turn == 0 and "not on this page" in shopper.text


def test_earlier_pages_lead_to_the_present_one(shopper):
    first = shopper.url
    shopper.search("boots")
    shopper.open(first)
    assert shopper.turn == 1 and "cannot be undone" in shopper.text
    shopper.send({"query": "hats"}, url=first)
    assert shopper.turn == 1 and "cannot be undone" in shopper.text and "boots" in shopper.text
    for odd in ("9", "-1", "one", "9" * 5000):
        shopper.open(f"{first.rsplit('/', 1)[0]}/{odd}")
        assert shopper.status == 200 and shopper.turn == 1


def test_after_the_purchase_nothing_changes(shopper, folder):
    walk(shopper, oracle(3))
    turn = shopper.turn
    (path,) = folder.iterdir()
    before = path.read_bytes()
    for data in ({"query": "more"}, {"action": "click[buy now]"}, {"action": "click[back to search]"}):
        shopper.send(data)
        assert shopper.turn == turn and "This visit has ended" in shopper.text and "1.00" in shopper.text
    assert path.read_bytes() == before


def test_a_request_without_search_or_action_is_400(shopper):
    shopper.send({"other": "1"})
    assert shopper.status == 400 and "Something is missing" in shopper.text


def test_a_large_request_is_413(shopper):
    page = shopper.url
    shopper.send({"query": "x" * (MAX_BODY_BYTES + 1)})
    assert shopper.status == 413 and "64 KB at most" in shopper.text
    response = shopper.client.post(page, data={f"field{i}": "1" for i in range(50)})
    assert response.status_code == 400
    response = shopper.client.post(page, data={f"field{i}": "1" for i in range(50)}, content_type="multipart/form-data")
    assert response.status_code == 413
    shopper.open("/")
    assert shopper.turn == 0


def test_other_peoples_visits_are_404(app, shopper):
    page, visit = shopper.url, shopper.url.rsplit("/", 1)[0]
    stranger = Shopper(app)
    for prepare in (lambda: None, stranger.open, lambda: stranger.client.set_cookie(COOKIE, "guess")):
        prepare()
        for url in (page, visit):
            stranger.open(url)
            assert stranger.status == 404 and "belongs to somebody else" in stranger.text
        stranger.send({"query": "boots"}, url=page)
        assert stranger.status == 404
    shopper.open("/")
    assert shopper.turn == 0  # nobody acted


def test_ids_are_long_random_and_never_taken_from_the_browser(app):
    first, second = Shopper(app), Shopper(app)
    first.client.set_cookie(COOKIE, "chosen-by-somebody")
    first.open(), second.open()
    cookies = {shopper.client.get_cookie(COOKIE).value for shopper in (first, second)}
    assert len(cookies) == 2 and "chosen-by-somebody" not in cookies and all(len(value) >= 32 for value in cookies)
    assert len({shopper.url.split("/")[2] for shopper in (first, second)}) == 2
    cookie = first.client.get_cookie(COOKIE)
    assert cookie.http_only and cookie.same_site == "Lax"


@pytest.mark.parametrize(
    "url", ["/nothing", "/visits/x/0", "/visits/../../etc/passwd", "/static/../app.py", "/visits//0"]
)
def test_unknown_addresses_are_404(shopper, url):
    shopper.open(url)
    assert shopper.status == 404 and "Nothing here" in shopper.text


def test_wrong_methods_are_405(shopper):
    assert shopper.client.get("/visits").status_code == 405
    assert shopper.client.delete(shopper.url).status_code == 405
    assert shopper.client.post("/").status_code == 405


def test_requests_from_elsewhere_are_403():
    app = create_app(ShopSettings(), trusted_hosts=("localhost", "127.0.0.1", "::1"))
    client = app.test_client()
    for host, code in (("127.0.0.1:8080", 303), ("[::1]:8080", 303), ("evil.example", 403), ("a@b", 403)):
        assert client.get("/", headers={"Host": host}).status_code == code, host
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/", headers=foreign).status_code == 403
    assert client.post("/visits", headers=foreign | {"Sec-Fetch-Mode": "navigate"}).status_code == 403
    assert client.get("/", headers=foreign | {"Sec-Fetch-Mode": "navigate"}).status_code == 303


def test_pages_carry_a_strict_policy_and_ask_nothing_from_outside(shopper):
    walk(shopper, oracle(3)[:2])
    seen = [shopper.client.get(url) for url in (shopper.url, "/static/shop.css", "/nothing")]
    picture = re.search(r'src="(/pictures/[^"]+)"', shopper.page)[1]
    seen.append(shopper.client.get(picture))
    for response in seen:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        text = response.get_data(as_text=True).replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|url\(\s*['\"]?//|<script|\son\w+=|style=", text)
        response.close()
    assert seen[0].headers["Cache-Control"] == "no-store" and "max-age" in seen[3].headers["Cache-Control"]
    assert seen[3].mimetype == "image/svg+xml"


def test_pages_are_labelled_for_keyboard_and_screen_reader(shopper):
    walk(shopper, oracle(3))
    pages = [shopper.page]
    shopper.send({}, url="/visits")
    for action in oracle(3)[:-1]:
        pages.append(shopper.page)
        walk(shopper, [action])
    for page in pages:
        assert page.count("<h1") == 1 and 'lang="en"' in page and "<title>" in page and 'href="#content"' in page
        assert all("alt=" in image for image in re.findall(r"<img[^>]*>", page))
        assert "tabindex" not in page.replace('tabindex="-1"', "")  # the order of the page is the order of the keys
        inputs = re.findall(r'<input id="([^"]+)"', page)
        assert all(f'for="{name}"' in page for name in inputs)
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids))


def test_two_requests_at_once_act_once(app, shopper):
    cookie = shopper.client.get_cookie(COOKIE).value
    barrier = threading.Barrier(6)
    results: list[str] = []

    def post() -> None:
        client = app.test_client()
        client.set_cookie(COOKIE, cookie)
        barrier.wait()
        results.append(client.post(shopper.url, data={"query": "boots"}).headers["Location"])

    threads = [threading.Thread(target=post) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("notice=moved" in where for where in results) == [False] + [True] * 5
    shopper.open("/")
    assert shopper.turn == 1


# ---------------------------------------------------------------------- limits


def test_a_full_shop_is_503(app, monkeypatch):
    monkeypatch.setattr(visits, "MAX_VISITS", 2)
    shoppers = [Shopper(app) for _ in range(3)]
    for shopper in shoppers:
        shopper.open()
    assert [shopper.status for shopper in shoppers] == [200, 200, 503]
    assert "Too many visits are open" in shoppers[2].text
    shoppers[0].search("boots")
    assert shoppers[0].status == 200


def test_visits_close_when_idle_and_when_a_shopper_has_many(monkeypatch):
    now = SimpleNamespace(s=0.0)
    shop = Visits(ShopSettings(), clock=lambda: now.s)
    owner, first = shop.start(None)
    for _ in range(visits.MAX_VISITS_PER_SHOPPER - 1):
        assert shop.start(owner)[0] == owner
    assert shop.get(first.id, owner) is first
    _, last = shop.start(owner)
    assert len(shop) == visits.MAX_VISITS_PER_SHOPPER and shop.get(first.id, owner) is first
    now.s = visits.IDLE_LIMIT_S
    assert shop.get(last.id, owner) is last and shop.latest(owner) is last
    now.s += 1
    assert shop.get(first.id, owner) is None and len(shop) == 1
    monkeypatch.setattr(visits, "MAX_VISITS", 1)
    with pytest.raises(ShopFullError, match="Come back later"):
        shop.start(None)
    now.s += visits.IDLE_LIMIT_S
    assert shop.start(owner)[0] != owner  # the id had no open visit any more


def test_a_disk_that_refuses_is_reported_and_the_visit_goes_on(shopper, folder, capsys):
    folder.rmdir()
    folder.write_text("in the way", encoding="utf-8")
    walk(shopper, oracle(3))
    assert "could not be recorded" in shopper.text and "1.00" in shopper.text
    assert "cannot write" in capsys.readouterr().err
