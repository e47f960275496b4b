"""Rules of EZPoints and Points24."""

import math
from collections import Counter

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs.cards import EZPointsEnv, Points24Env
from agent_envs.envs.cards.formula import value_of
from agent_envs.envs.cards.points import number_of


def _play(env, actions, **reset):
    """Reset, play all actions, and return the observations, rewards, flags and infos of the steps."""
    env.reset(seed=0, **reset)
    return [env.step(action) for action in actions]


def _within(count, total, probability, sigmas=3.0):
    return abs(count - total * probability) <= sigmas * math.sqrt(total * probability * (1 - probability))


# ---------------------------------------------------------------------- EZPoints


def test_ezpoints_deals_are_the_draw_tree():
    """Values, suits and order over 20,000 seeds, each probability within 3 sigma."""
    env, total = EZPointsEnv(obs_mode="text"), 20_000
    pairs, suits = Counter(), Counter()
    for seed in range(total):
        cards = env._draw(seed)
        pairs[tuple(rank for rank, _ in cards)] += 1
        suits[tuple(suit for _, suit in cards)] += 1
    expected = Counter()
    for rank in "23456789TJQK":
        number = number_of(rank)
        others = [12 - number] if 12 % number or number > 6 else [12 - number, 12 // number]
        for other in others:
            second = "T" if other == 10 else str(other)
            for pair in ((rank, second), (second, rank)):
                expected[pair] += 1 / 12 / len(others) / 2
    assert math.isclose(sum(expected.values()), 1.0)
    assert set(pairs) == set(expected)
    assert all(_within(pairs[pair], total, p) for pair, p in expected.items())
    assert len(suits) == 16
    assert all(_within(count, total, 1 / 16) for count in suits.values())


def test_ezpoints_second_card_of_the_draw_shows_no_face_and_every_deal_is_solvable():
    env = EZPointsEnv(obs_mode="text")
    for seed in range(400):
        env.reset(options={"task_index": seed})
        assert sum(rank in "JQK" for rank, _ in env.canonical_state()["cards"]) <= 1
        walk = env.example_actions()
        assert len(walk) == 4
        numbers = sorted(int(s) for s in walk if s.isdigit())
        assert (walk[1] == "*") == (math.prod(numbers) == 12)
        *_, info = [env.step(action) for action in walk][-1]
        assert info["success"] and info["score"] == 1.0


def test_a_right_formula_pays_10_and_terminates():
    env = EZPointsEnv(deal=["H6", "S6"])
    steps = _play(env, ["6", "+", "6", "="])
    assert [step[1] for step in steps] == [0.0, 0.0, 0.0, 10.0]
    assert [step[2] for step in steps] == [False, False, False, True]
    assert steps[-1][4]["success"] is True
    assert steps[-1][0]["text"] == "Formula: 6 + 6"


@pytest.mark.parametrize(
    ("rules", "failure", "formula"), [("agent", 0.0, ["6", "+", "6"]), ("official", -1.0, ["6", "+", "6", " "])]
)
def test_a_card_used_twice(rules, failure, formula):
    env = EZPointsEnv(deal=["H6", "S6"], rules=rules)
    *_, last = _play(env, ["6", "+", "6", "6"])
    assert last[1:4] == (failure, False, False)
    assert last[4]["action_is_valid"] is False
    assert last[4]["refusal"] == "number_unavailable"
    assert env.canonical_state()["formula"] == formula
    assert env.step("=")[1] == 10.0  # a blank at the end does no harm


def test_single_options_override_the_rule_set():
    env = EZPointsEnv(deal=["H6", "S6"], rules="official", on_invalid="keep", reward_mode="success")
    steps = _play(env, ["5", "="])
    assert [step[1] for step in steps] == [0.0, 0.0]
    assert env.canonical_state()["formula"] == []
    env = EZPointsEnv(deal=["H6", "S6"], on_invalid="blank")
    _play(env, ["5"])
    assert env.canonical_state()["formula"] == [" "]
    env = EZPointsEnv(deal=["H6", "S6"], reward_mode="original")
    assert [step[1] for step in _play(env, ["5", "="])] == [-1.0, -1.0]


@pytest.mark.parametrize("symbol", ["+", "=", "6", "3"])
@pytest.mark.parametrize(("rules", "failure"), [("agent", 0.0), ("official", -1.0)])
def test_the_seventh_symbol_truncates_and_the_end_stays(rules, failure, symbol):
    env = EZPointsEnv(deal=["H6", "S6"], rules=rules, max_turns=50)
    steps = _play(env, ["+"] * 6 + [symbol, "="])
    assert [step[3] for step in steps] == [False] * 6 + [True, True]
    assert not any(step[2] for step in steps)
    assert steps[6][1] == failure
    assert steps[7][1] == 0.0
    assert steps[7][4]["state_key"] == steps[6][4]["state_key"]
    assert env.canonical_state()["formula"] == ["+"] * 6
    assert steps[7][4]["admissible_actions"] == []


def test_an_unknown_symbol_does_not_end_a_full_formula():
    env = EZPointsEnv(deal=["H6", "S6"], max_turns=50)
    *_, full, unknown = _play(env, ["+"] * 6 + ["dance"])
    assert unknown[3] is False
    assert unknown[4]["state_key"] == full[4]["state_key"]


def test_truncation_survives_the_wrappers_of_make():
    env = gym.make("agent_envs/EZPoints-v0", max_turns=20)
    env.reset(seed=0)
    flags = [env.step("+")[2:4] for _ in range(7)]
    assert flags == [(False, False)] * 6 + [(False, True)]


@pytest.mark.parametrize("formula", ["", "6", "6 6", "6 *", "6 * 6", "* 6 6"])
def test_wrong_formulas_fail(formula):
    env = EZPointsEnv(deal=["H6", "S6"])
    *_, last = _play(env, [*formula.split(), "="])
    assert last[1:4] == (0.0, True, False)
    assert last[4]["success"] is False and last[4]["action_is_valid"] is True


def test_one_number_that_equals_the_target_is_not_enough():
    env = Points24Env(deal=["H2", "S4", "DA", "CA"])
    assert [step[1] for step in _play(env, ["2", "4", "="])][-1] == 0.0  # the literal 24 uses two of four numbers


def test_two_stars_are_a_power():
    env = EZPointsEnv(deal=["H2", "S6"])
    steps = _play(env, ["2", "*", "*", "6", "="])
    assert all(step[4]["action_is_valid"] for step in steps)
    assert steps[-1][1] == 0.0
    points = Points24Env(deal=["S5", "S2", "SA", "H2"])
    assert _play(points, "5 * * 2 - 2 + 1 =".split())[-1][1] == 10.0


def test_admissible_symbols_follow_the_unused_cards():
    env = EZPointsEnv(deal=["H6", "SQ"])
    _, info = env.reset()
    assert info["admissible_actions"] == ["6", "10", "+", "*", "="]
    assert env.step("K")[4]["admissible_actions"] == ["6", "+", "*", "="]
    assert env.step("=")[4]["admissible_actions"] == []


def test_errors_alone_end_at_max_turns():
    env = EZPointsEnv()
    steps = _play(env, ["nonsense"] * 8)
    assert [step[3] for step in steps] == [False] * 7 + [True]
    assert len({step[4]["state_key"] for step in steps}) == 1
    assert steps[-1][4]["turn"] == 8


# ---------------------------------------------------------------------- Points24


def test_points24_deals_are_uniform():
    env, total = Points24Env(obs_mode="text"), 5_000
    ranks, suits = Counter(), Counter()
    for seed in range(total):
        cards = env._draw(seed)
        assert len(cards) == 4
        ranks.update(rank for rank, _ in cards)
        suits.update(suit for _, suit in cards)
    assert len(ranks) == 13 and all(_within(count, 4 * total, 1 / 13) for count in ranks.values())
    assert len(suits) == 4 and all(_within(count, 4 * total, 1 / 4) for count in suits.values())


def test_three_numbers_are_not_enough():
    env = Points24Env(deal=["HA", "S2", "D8", "C5"])
    steps = _play(env, "( 1 + 2 ) * 8 =".split())
    assert value_of("( 1 + 2 ) * 8".split()) == 24
    assert steps[-1][1:4] == (0.0, True, False)


@pytest.mark.parametrize(
    ("arithmetic", "reward", "options"), [("exact", 10.0, {}), ("float", 0.0, {"arithmetic": "float"})]
)
def test_3_3_8_8(arithmetic, reward, options):
    env = Points24Env(deal=["H3", "S3", "D8", "C8"], **options)
    env.reset()
    walk = env.example_actions()
    assert (walk == []) == (arithmetic == "float")
    assert _play(env, "8 / ( 3 - 8 / 3 ) =".split())[-1][1] == reward


def test_division_by_zero_fails():
    env = Points24Env(deal=["HA", "SA", "DA", "CA"], rules="official")
    assert _play(env, "1 / ( 1 - 1 ) + 1 =".split())[-1][1:4] == (-1.0, True, False)


def test_21_symbols_and_one_more():
    env = Points24Env(max_turns=300)
    steps = _play(env, ["("] * 22)
    assert [step[3] for step in steps] == [False] * 21 + [True]
    assert len(env.canonical_state()["formula"]) == 21


def test_faces_as_11_12_13():
    env = Points24Env(deal=["HJ", "SQ", "DK", "CA"], treat_face_cards_as_10=False, obs_mode="text")
    observation, info = env.reset()
    assert "Numbers: 11, 12, 13, 1. " in observation
    assert [s for s in info["admissible_actions"] if s.isdigit()] == ["1", "11", "12", "13"]
    assert [step[4]["action_is_valid"] for step in _play(env, ["J", "Q", "13", "10"])] == [True, True, True, False]


def test_solvable_only_draws_again():
    plain, solvable = Points24Env(obs_mode="text"), Points24Env(obs_mode="text", solvable_only=True)
    redrawn = 0
    for index in range(30):
        plain.reset(options={"task_index": index})
        solvable.reset(options={"task_index": index})
        walk = plain.example_actions()
        assert solvable.example_actions()
        if walk:
            assert solvable.canonical_state() == plain.canonical_state()
            assert plain.step(walk[0])[4]["action_is_valid"]
        redrawn += not walk
    assert 0 < redrawn < 15
    assert plain.fingerprint() != solvable.fingerprint()


def test_an_unsolvable_deal_has_no_walk_and_is_refused_where_only_solvable_ones_are_asked_for():
    deal = ["HA", "SA", "DA", "CA"]
    env = Points24Env(deal=deal)
    env.reset()
    assert env.example_actions() == []
    with pytest.raises(ValueError, match="cannot make 24"):
        Points24Env(deal=deal, solvable_only=True)


def test_the_oracle_wins_from_the_middle_of_its_walk_and_from_other_beginnings():
    env = Points24Env(deal=["H4", "S6", "D8", "C4"])
    env.reset()
    for beginning in ("", "(", "8 -", "( 4 + 8", "4 *", "- 4"):
        _play(env, beginning.split())
        while walk := env.example_actions():
            *_, info = env.step(walk[0])
        assert info["success"], beginning
