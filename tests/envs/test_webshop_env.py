"""WebShop as an environment: actions, rewards, episode end, keys, example actions, snapshots."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the id
from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.nouns import RULE_AGREEMENT
from agent_envs.errors import SnapshotError
from agent_envs.prompts import PromptBuilder


@pytest.fixture(autouse=True)
def own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data of the machine's user, and nothing written to the cache of the user."""
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def start(index: int = 3, *, split: str = "test", **kwargs: Any) -> WebShopEnv:
    env = WebShopEnv(**kwargs)
    env.reset(seed=0, options={"split": split, "task_index": index})
    return env


def play(env: WebShopEnv, *actions: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
    return [env.step(action) for action in actions][-1]


# Actions


def test_the_example_actions_buy_the_wanted_product() -> None:
    env = start()
    *walk, last = env.example_actions()
    for action in walk:
        _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["action_is_valid"], info["score"]) == (0.0, False, True, 0.0)
    observation, reward, terminated, truncated, info = env.step(last)
    assert (reward, terminated, truncated) == (10.0, True, False)
    assert info["success"] is True and info["score"] == 1.0
    assert observation.startswith("Thank you for shopping with us!")


@pytest.mark.parametrize(
    ("action", "refusal"),
    [
        ("", "no_match"),
        ("search shoes", "no_match"),
        ("[shoes]", "no_match"),
        ("search[]", "empty_argument"),
        ("buy[shoes]", "unknown_verb"),
        ("search[a[b]]", "unknown_verb"),
        ("x search[a]", "unknown_verb"),
        ("search[[shoes]]", "unknown_verb"),
        ("click[search]", "not_clickable"),
        ("click[buy now]", "not_clickable"),
        ("click[\0]", "not_clickable"),
        ("search\n[shoes]", "no_match"),
        ("\N{SNOWMAN}" * 10_000, "no_match"),
        ("[" * 100_000 + "]" * 100_000, "unknown_verb"),
    ],
)
def test_refused_actions_use_a_turn_and_change_nothing(action: str, refusal: str) -> None:
    env = start()
    before, key = env._observe(), env.state_key()
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == (before, 0.0, False, False)
    assert (info["action_is_valid"], info["refusal"], info["turn"]) == (False, refusal, 1)
    assert info["state_key"] == key


@pytest.mark.parametrize("action", [None, 3, b"search[a]", ["search[a]"]])
def test_an_action_that_is_no_text_raises(action: Any) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        start().step(action)


@pytest.mark.parametrize(
    "action",
    [
        "search[ ]",
        "Search[Shoes] and then I will look",
        "SEARCH[shoes]",
        f"search[{'x' * 10_000}]",
        f"search[{'rubber sole ' * 100_000}]",
        "search[schön 鞋 \U0001f45f <b>]",
        "search[<r>]",
        "search[<c>]",
        "search[<a> b]",
        "search[<q>]",
    ],
)
def test_odd_searches_show_a_page_of_results(action: str) -> None:
    observation, _, _, _, info = play(start(), action)
    assert info["action_is_valid"]
    assert "Page 1 (Total results: " in observation


def test_a_search_works_everywhere_unless_strict_search_is_set() -> None:
    for strict, refusal in ((False, ""), (True, "no_search_bar")):
        env = start(strict_search=strict)
        info = play(env, "search[lamp]", "search[sofa]")[4]
        assert info["refusal"] == refusal


def test_what_the_page_offers_is_listed_in_page_order_and_valid() -> None:
    env = start()
    assert env._info()["admissible_actions"] == ["search[<your query>]"]
    listed = play(env, "search[lamp]")[4]["admissible_actions"]
    assert listed[:2] == ["click[back to search]", "click[next >]"]
    assert len(listed) == 12
    listed = play(env, listed[2])[4]["admissible_actions"]
    buttons = ["back to search", "< prev", "description", "features", "reviews", "buy now"]
    assert listed[:6] == [f"click[{button}]" for button in buttons]
    saved = env.snapshot()
    for action in listed:
        env.restore(saved)
        assert env.step(action)[4]["action_is_valid"], action


def test_the_prompt_shows_task_page_and_actions() -> None:
    env = gym.make("agent_envs/WebShop-v0")
    observation, info = env.reset(seed=0)
    text = PromptBuilder.for_env("agent_envs/WebShop-v0").build(observation=observation, info=info).text
    assert f"The request: {info['task']}" in text
    assert observation in text
    assert "'search[<your query>]'" in text


def test_an_attributes_button_and_a_style_can_be_asked_for() -> None:
    env = start(show_attrs=True, obs_style="verl")
    asin = env._session.goal.asin.lower()
    observation = play(env, f"search[{env.task}]", f"click[{asin}]", "click[attributes]")[0]
    assert observation.startswith("'Back to Search' [SEP] '< Prev' [SEP] '")
    assert f"'{env._session.product.category}'" in observation


# Reward


def wrong_purchase(**kwargs: Any) -> tuple[float, dict[str, Any]]:
    env = start(**kwargs)
    asin = env._session.goal.asin.lower()
    _, reward, terminated, _, info = play(env, f"search[{env.task}]", f"click[{asin}]", "click[buy now]")
    assert terminated and not info["success"]
    return reward, info


def test_a_part_of_the_score_pays_only_in_the_graded_mode() -> None:
    reward, info = wrong_purchase()
    assert reward == 0.0 and 0.0 < info["score"] < 1.0
    assert wrong_purchase(reward_mode="graded")[0] == info["score"]
    env = start(reward_mode="graded")
    assert play(env, *env.example_actions())[1] == 1.0


def test_the_score_follows_from_its_parts() -> None:
    _, info = wrong_purchase()
    parts = info["w_att"] * info["r_att"] + info["w_option"] * info["r_option"] + info["w_price"] * info["r_price"]
    assert info["score"] == pytest.approx(info["r_type"] * parts)
    assert (info["r_type"], info["r_att"], info["r_option"], info["r_price"]) == (1.0, 1.0, 0.0, 1.0)
    assert info["query_match"] is True and info["category_match"] is True and info["title_score"] > 0.2
    assert info["noun_source"] == "rule" and info["noun_agreement"] == RULE_AGREEMENT


def test_the_kind_of_product_is_part_of_the_score() -> None:
    env = start()
    other = next(product for product in env.engine.catalogue if product.category != env._session.goal.category)
    play(env, f"search[{other.title}]")
    info = play(env, f"click[{other.asin.lower()}]", "click[buy now]")[4]
    assert info["r_type"] < 1.0 and info["query_match"] is False
    assert info["score"] < 0.5


# Episode end


def test_fault_c6_a_purchase_keeps_its_page_and_its_goal() -> None:
    env = start()
    observation, _, _, _, info = play(env, *env.example_actions())
    for action in ("search[shoes]", "click[buy now]", "click[back to search]"):
        after, reward, terminated, truncated, later = env.step(action)
        assert (after, reward, terminated, truncated) == (observation, 0.0, True, False)
        assert later["refusal"] == "episode_over"
        assert all(later[key] == info[key] for key in ("task_id", "state_key", "score", "success", "turn", "r_att"))
    assert info["admissible_actions"] == []


def test_the_episode_is_cut_after_15_turns() -> None:
    env = start()
    flags = [env.step("search[lamp]")[2:4] for _ in range(15)]
    assert flags == [(False, False)] * 14 + [(False, True)]


def test_a_purchase_in_the_last_turn_terminates() -> None:
    env = start(max_turns=len(start().example_actions()))
    assert play(env, *env.example_actions())[1:4] == (10.0, True, False)


# Keys


def test_an_option_changes_the_key_though_the_text_is_the_same() -> None:
    env = start()
    find, open_, option, *_ = env.example_actions()
    before, _, _, _, info = play(env, find, open_)
    after, _, _, _, later = env.step(option)
    assert after == before
    assert later["state_key"] != info["state_key"]


def test_the_key_knows_the_results_not_the_words() -> None:
    keys = {play(start(), f"search[{words}]")[4]["state_key"] for words in ("Yoga Leggings", "leggings yoga the")}
    assert len(keys) == 1
    assert play(start(), "search[lamp]")[4]["state_key"] not in keys


def test_going_back_to_the_start_page_is_going_back_to_the_first_state() -> None:
    env = start()
    first = env.state_key()
    assert play(env, "search[lamp]", "click[back to search]")[4]["state_key"] == first


def test_the_canonical_state_is_the_documented_one() -> None:
    env = start()
    find, open_, option, *_ = env.example_actions()
    play(env, find, open_, option)
    state = env.canonical_state()
    assert set(state) == {"page", "results", "page_no", "asin", "options", "done_score"}
    assert json.loads(json.dumps(state)) == state
    assert (state["page"], state["asin"], state["page_no"]) == ("item", env._session.goal.asin, 1)
    assert len(state["options"]) == 1 and state["done_score"] is None


# Oracle


@pytest.mark.parametrize("strict", [False, True])
def test_the_example_actions_go_on_from_every_page(strict: bool) -> None:
    env = start(strict_search=strict)
    find, open_, *_ = env.example_actions()
    walks: list[list[str]] = [
        [],
        [find],
        [find, "click[next >]", "click[next >]"],
        [find, open_],
        [find, open_, "click[features]"],
        [find, open_, env.example_actions()[2], "click[description]"],
        [find, "click[back to search]"],
        ["search[lamp]"],
    ]
    for walk in walks:
        env.reset(options={"split": "test", "task_index": 3})
        for action in walk:
            assert env.step(action)[4]["action_is_valid"], action
        rest = env.example_actions()
        assert env.step(rest[0])[4]["action_is_valid"]
        assert env.example_actions() == rest[1:], walk
        assert play(env, *rest[1:])[1] == 10.0
        assert env.example_actions() == []


# Snapshots


def test_a_snapshot_goes_on_in_another_environment_from_every_page() -> None:
    env, other = start(7), start(8)
    for action in [*env.example_actions(), "search[after the end]"]:
        saved = env.snapshot()
        observation, info = other.restore(saved)
        assert observation == env._observe()
        assert info["state_key"] == env.state_key()
        assert json.dumps(other.step(action)) == json.dumps(env.step(action))
    assert other.snapshot() == env.snapshot()
    assert other.restore(env.snapshot())[1]["score"] == 1.0


def test_a_snapshot_of_another_shop_or_a_changed_one_is_refused() -> None:
    env = start()
    env.step("search[lamp]")
    saved = env.snapshot()
    with pytest.raises(SnapshotError, match="other tasks"):
        start(goals="human").restore(saved)
    before = env.snapshot()
    data = json.loads(saved)
    for change in ({"goal_index": 4}, {"page": "cellar"}, {"asin": "B0"}, {"options": [["a", "b"]]}, {"page_no": None}):
        damaged = {**data, "state": {**data["state"], **change}}
        with pytest.raises(SnapshotError):
            env.restore(json.dumps(damaged).encode())
        assert env.snapshot() == before
