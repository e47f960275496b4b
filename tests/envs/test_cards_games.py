"""Rules of NumberLine and Blackjack, and what all four games share."""

import math
from collections import Counter

import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env
from agent_envs.envs.cards.blackjack import basic_strategy, hand_total, is_natural
from agent_envs.envs.cards.game import Dice


def _play(env, actions, **reset):
    """Reset, play all actions, and return the observations, rewards, flags and infos of the steps."""
    env.reset(seed=0, **reset)
    return [env.step(action) for action in actions]


def _within(count, total, probability, sigmas=3.0):
    return abs(count - total * probability) <= sigmas * math.sqrt(total * probability * (1 - probability))


# ---------------------------------------------------------------------- NumberLine


def test_numberline_deals_and_wrap():
    env, total = NumberLineEnv(obs_mode="text"), 6_000
    states, expected = Counter(), Counter()
    for seed in range(total):
        env._deal(seed)
        state = env.canonical_state()
        states[state["pos"], state["goal"]] += 1
    for start in range(6):
        for goal in range(6):
            expected[start, (goal + 1) % 5 if goal == start else goal] += 1 / 36
    assert set(states) == set(expected)
    assert all(_within(states[pair], total, p) for pair, p in expected.items())


@pytest.mark.parametrize(("both", "goal"), [(4, 0), (5, 1), (0, 1)])
def test_a_target_equal_to_the_start_is_moved(both, goal):
    env = NumberLineEnv(deal=[both, both])
    env.reset()
    assert env.canonical_state() == {"goal": goal, "pos": both}


def test_numberline_rewards_and_edges():
    env = NumberLineEnv(deal=[1, 3])
    steps = _play(env, ["left", "-", "+", "right", "+"])
    assert [step[1] for step in steps] == [-1.0, -1.0, 0.0, 0.0, 1.0]
    assert [step[2] for step in steps] == [False] * 4 + [True]
    env = NumberLineEnv(deal=[4, 3])
    assert [step[1] for step in _play(env, ["+", "+", "-", "-"])] == [-1.0, -1.0, 0.0, 1.0]
    env = NumberLineEnv(deal=[4, 3], reward_mode="success")
    steps = _play(env, ["+", "-", "left"])
    assert [step[1] for step in steps] == [0.0, 0.0, 10.0]
    assert steps[-1][2] is True and steps[-1][4]["success"] is True


def test_numberline_truncates_at_10():
    env = NumberLineEnv(deal=[0, 3])
    steps = _play(env, ["-"] * 10)
    assert [step[3] for step in steps] == [False] * 9 + [True]
    assert len({step[4]["state_key"] for step in steps}) == 1


def test_numberline_oracle():
    env = NumberLineEnv()
    for index in range(40):
        env.reset(options={"task_index": index})
        walk = env.example_actions()
        assert [env.step(action)[1] for action in walk][-1] == 1.0


# ---------------------------------------------------------------------- Blackjack


@pytest.mark.parametrize(
    ("ranks", "total"),
    [("A7", 18), ("AA", 12), ("AK", 21), ("A95", 15), ("AAT", 12), ("KQ2", 22), ("A" * 21, 21), ("55A", 21)],
)
def test_an_ace_counts_11_if_it_can(ranks, total):
    assert hand_total([(rank, "H") for rank in ranks]) == total


def test_bust_ends_at_once_and_the_dealer_does_not_draw():
    for rules, reward in (("agent", 0.0), ("official", -1.0)):
        env = BlackjackEnv(deal=["H5", "S5", "DK", "CQ", "H2"], rules=rules)
        steps = _play(env, ["hit"])
        assert steps[-1][1:4] == (reward, True, False)
        assert env.canonical_state()["draws"] == 5
        assert steps[-1][4]["dealer"] == ["H5", "S5"]


def test_dealer_draws_to_17():
    env = BlackjackEnv(deal=["H5", "S5", "DK", "CQ", "H6", "HA", "SK"])
    *_, (_, reward, terminated, _, info) = _play(env, ["stand"])
    assert info["dealer"] == ["H5", "S5", "H6", "HA"]  # 16, then 17 with the ace as 1
    assert (reward, terminated, info["success"]) == (1.0, True, True)


@pytest.mark.parametrize(
    ("deal", "agent", "official"),
    [
        (["HK", "S9", "DK", "C9"], 0.0, 0.0),  # a tie
        (["HK", "SQ", "DK", "C9"], 0.0, -1.0),  # a loss
        (["HK", "S7", "DK", "C9"], 1.0, 1.0),  # a win
        (["HK", "S6", "D2", "C3", "HT"], 1.0, 1.0),  # the dealer is above 21: counts 0
    ],
)
def test_comparison(deal, agent, official):
    for rules, reward in (("agent", agent), ("official", official)):
        *_, last = _play(BlackjackEnv(deal=deal, rules=rules), ["stand"])
        assert last[1] == reward
        assert last[4]["success"] is (reward > 0)


def test_natural_and_sab():
    natural, dealer_three_cards = ["HK", "S9", "DA", "CQ"], ["H5", "S6", "DA", "CQ", "HK"]

    def reward(deal, **options):
        return _play(BlackjackEnv(deal=deal, **options), ["stand"])[-1][1]

    assert is_natural([("A", "H"), ("K", "S")]) and not is_natural([("A", "H"), ("T", "S"), ("K", "D")])
    assert reward(natural) == 1.0
    assert reward(natural, natural=True) == 1.5
    assert reward(natural, natural=True, sab=True) == 1.0
    assert reward(dealer_three_cards) == 0.0  # 21 against 21
    assert reward(dealer_three_cards, natural=True) == 0.0
    assert reward(dealer_three_cards, sab=True) == 1.0
    assert reward(["HK", "SA", "DA", "CQ"], sab=True) == 0.0


def test_the_hidden_card_does_not_leak():
    """Two deals that differ in the hidden card only look and key the same until the end."""
    one, two = (["HQ", hidden, "CA", "S7", "D2"] for hidden in ("C7", "D9"))
    for mode in ("text", "image", "image_text"):
        envs = [BlackjackEnv(deal=deal, obs_mode=mode, render_mode="rgb_array") for deal in (one, two)]
        results = [env.reset(options={"task_index": 3}) for env in envs]
        for action in ("hit", "what", "stand"):
            for (observation, info), env in zip(results, envs, strict=True):
                assert info["dealer"] == []
                text = observation if mode == "text" else observation["text"]
                assert "C7" not in str(info) and "7 of clubs" not in text and "9 of diamonds" not in text
                assert env.render().tobytes() == envs[0].render().tobytes()
            assert results[0][1] == results[1][1]
            results = [(step[0], step[4]) for step in (env.step(action) for env in envs)]
        assert [info["dealer"][1] for _, info in results] == ["C7", "D9"]
        assert envs[0].render().tobytes() != envs[1].render().tobytes()


def test_cards_depend_on_task_and_number_only():
    hit, stand = BlackjackEnv(), BlackjackEnv()
    for env in (hit, stand):
        env.reset(options={"task_index": 5})
    drawn = [hit._card(number) for number in range(30)]
    stand.step("stand")
    assert [stand._card(number) for number in range(30)] == drawn
    hit.reset(options={"task_index": 6})
    assert [hit._card(number) for number in range(30)] != drawn


def test_blackjack_deck():
    env, total = BlackjackEnv(obs_mode="text"), 13_000
    env.reset(seed=0)
    ranks, suits = Counter(), Counter()
    for number in range(total):
        rank, suit = env._card(number)
        ranks[rank] += 1
        suits[suit] += 1
    assert set(ranks) == set("A23456789JQK")
    assert all(_within(ranks[r], total, (4 / 3 if r in "JQK" else 1) / 13) for r in ranks)
    assert all(_within(count, total, 1 / 4) for count in suits.values())


@pytest.mark.parametrize(
    ("player", "shown", "action"),
    [
        ("KQ", "A", "stand"),
        ("K7", "A", "stand"),
        ("K6", "7", "hit"),
        ("K6", "6", "stand"),
        ("K2", "2", "stand"),
        ("65", "6", "hit"),
        ("K5", "A", "hit"),
        ("A6", "9", "stand"),
    ],
)
def test_basic_strategy(player, shown, action):
    assert basic_strategy([(rank, "H") for rank in player], (shown, "S")) == action


def test_blackjack_walks_win_or_are_empty():
    env = BlackjackEnv(obs_mode="text")
    outcomes = Counter()
    for index in range(150):
        env.reset(options={"task_index": index})
        walk = env.example_actions()
        for action in walk:
            *_, info = env.step(action)
        assert not walk or info["success"]
        outcomes[bool(walk)] += 1
    assert outcomes[True] > 75 and outcomes[False] > 0


# ---------------------------------------------------------------------- common


def test_dice_roll_uniformly_and_by_label():
    rolls = Counter()
    for seed in range(6_000):
        dice = Dice(seed, "x")
        rolls[dice.roll(3), dice.roll(2)] += 1
    assert len(rolls) == 6 and all(_within(count, 6_000, 1 / 6) for count in rolls.values())
    assert [Dice(1, "a").roll(1 << 40)] != [Dice(1, "b").roll(1 << 40)]


@pytest.mark.parametrize("env_class", [EZPointsEnv, Points24Env, NumberLineEnv, BlackjackEnv])
def test_task_ids_name_the_seed(env_class):
    env = env_class()
    game = env_class.__name__.removesuffix("Env").lower()
    _, info = env.reset(options={"task_index": 17})
    assert info["task_id"] == f"{game}/train/17"
    _, info = env.reset(options={"split": "test", "task_index": 255})
    assert info["task_id"] == f"{game}/test/1000255"
    assert env.num_tasks("train") == 1_000_000 and env.num_tasks("test") == 256
    with pytest.raises(ValueError, match="task_index"):
        env.reset(options={"split": "test", "task_index": 256})


@pytest.mark.parametrize(
    ("env_class", "options", "message"),
    [
        (EZPointsEnv, {"rules": "offical"}, "Did you mean 'official'"),
        (EZPointsEnv, {"obs_mode": "pixels"}, "Unknown obs_mode 'pixels'"),
        (EZPointsEnv, {"obs_mode": None}, "Unknown obs_mode None"),
        (EZPointsEnv, {"on_invalid": "skip"}, "Unknown on_invalid 'skip'"),
        (EZPointsEnv, {"arithmetic": "floats"}, "Did you mean 'float'"),
        (EZPointsEnv, {"reward_mode": 10}, "Unknown reward_mode 10"),
        (EZPointsEnv, {"deal": ["H6"]}, "deal must be a list of 2 cards"),
        (EZPointsEnv, {"deal": ["H6", "6H"]}, "got '6H'"),
        (EZPointsEnv, {"deal": "H6"}, "deal must be"),
        (Points24Env, {"deal": ["H6", "S6"]}, "a list of 4 cards"),
        (NumberLineEnv, {"deal": [1]}, "deal must be"),
        (NumberLineEnv, {"deal": [1, 6]}, "deal must be"),
        (NumberLineEnv, {"deal": [1, True]}, "deal must be"),
        (BlackjackEnv, {"deal": ["HQ", "C7", "CA"]}, "a list of at least 4 cards"),
        (BlackjackEnv, {"render_mode": "human"}, "Unknown render_mode"),
    ],
)
def test_wrong_options_are_refused_with_advice(env_class, options, message):
    with pytest.raises(ValueError, match=message):
        env_class(**options)


@pytest.mark.parametrize("action", [None, 3, ["3"], b"3"])
def test_actions_must_be_text(action):
    env = EZPointsEnv()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="must be a str"):
        env.step(action)


@pytest.mark.parametrize("env_class", [EZPointsEnv, Points24Env, NumberLineEnv, BlackjackEnv])
@pytest.mark.parametrize("action", ["", " ", "dance", "{" * 10_000, "\ud800", "٣", "=" * 300, "hit\x00", "1 2", "+ -"])
def test_refused_texts_keep_the_key(env_class, action):
    env = env_class()
    _, before = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(action)
    assert env.observation_space.contains(observation)
    assert (reward, terminated, truncated, info["action_is_valid"]) == (0.0, False, False, False)
    assert info["refusal"] in ("unknown_action", "action_multiple")
    assert info["state_key"] == before["state_key"] and info["turn"] == 1
