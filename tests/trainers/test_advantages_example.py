"""The worked example of the documentation, by hand: A wins in two turns, B wanders for three.

A: s0, s1 (reward 10 on the last turn); B: s0, s0, s2 (no reward). Rows A0 A1 B0 B1 B2; gamma 0.95, w 1, c 0.1.
"""

import numpy as np
import pytest

from agent_envs.trainers.advantages import EstimatorConfig, TurnTable, compute_advantages


def example(**changes):
    columns = {
        "group": ["g"] * 5,
        "traj": list("AABBB"),
        "t": [0, 1, 0, 1, 2],
        "state": ["s0", "s1", "s0", "s0", "s2"],
        "next_state": ["s1", None, "s0", "s2", None],
        "reward": [0.0, 10.0, 0.0, 0.0, 0.0],
        "valid": [True] * 5,
        "terminated": [False, True, False, False, False],
        "truncated": [False, False, False, False, True],
        "success": [True, True, False, False, False],
    }
    return TurnTable(**(columns | changes))


B0_INVALID = {"valid": [True, True, False, True, True]}
MEAN, STD = {"norm": "mean_norm"}, {"norm": "mean_std_norm"}
VERL, G2PO = {"compat": "verl-agent"}, {"compat": "g2po"}
# fmt: off
TOTALS = [
    ("grpo", MEAN, [5, 5, -5, -5, -5]),
    ("grpo", STD, [0.707107, 0.707107, -0.707107, -0.707107, -0.707107]),
    ("grpo", MEAN | VERL, [6, 6, -4, -4, -4]),
    ("grpo", STD | VERL, [1.095445, 1.095445, -0.730297, -0.730297, -0.730297]),
    ("rloo", {}, [10, 10, -10, -10, -10]),
    ("rloo", VERL, [7.5, 7.5, -5, -5, -5]),
    ("gigpo", MEAN, [11.333333, 5, -8.166667, -8.166667, -5]),
    ("gigpo", STD, [1.861807, 0.707107, -1.284457, -1.284457, -0.707107]),
    ("gigpo", MEAN | VERL, [12.333333, 6, -7.166667, -7.166667, -4]),
    ("gigpo", STD | VERL, [2.250145, 1.095445, -1.307647, -1.307647, -0.730297]),
    ("g2po", MEAN, [16.025556, 4.703333, -6.957778, -12.974444, -5.796667]),
    ("g2po", STD, [3.444424, 0.621705, -1.175589, -2.661203, -0.936444]),
    ("g2po", MEAN | {"value_offset": 0}, [16.711111, 4.266667, -6.955556, -13.288889, -5.733333]),
    ("g2po", MEAN | G2PO, [17.025556, 5.703333, -5.957778, -11.974444, -4.796667]),
    ("g2po", STD | G2PO, [3.832763, 1.010043, -1.198779, -2.684393, -0.959634]),
    ("hgpo", MEAN | {"hgpo_weights": "fixed"}, [5.013889, 0, -4.486111, -3.166667 / 6, 0]),
    ("hgpo", MEAN, [5.013889, 0, -4.486111, -3.166667, 0]),
    ("hgpo", MEAN | VERL, [6.333330, 0, -3.166665, -3.166665, 0]),
    ("graphgpo", STD, [1.857879, 0.707107, -1.200295, -1.364691, -0.707107]),
    ("graphgpo", STD | VERL, [2.246236, 1.095445, -1.223493, -1.387891, -0.730297]),
    ("gagpo", STD, [1.638007, -0.007818, -0.791642, -0.830730, -0.007818]),
]
PARTS = [
    ("gigpo", MEAN, "return", [9.5, 10, 0, 0, 0]),
    ("gigpo", MEAN, "step", [6.333333, 0, -3.166667, -3.166667, 0]),
    ("gigpo", STD, "step", [1.154700, 0, -0.577350, -0.577350, 0]),
    ("g2po", MEAN, "value", [3.008333, 9.5, 3.008333, 3.008333, 0]),
    ("g2po", MEAN, "next_value", [9.5, 10, 3.008333, 0, 0]),
    ("g2po", MEAN, "node", [5.330556, 0, -1.161111, -4.169444, 0]),
    ("g2po", MEAN, "edge", [5.695000, -0.296667, -0.796667, -3.805000, -0.796667]),
    ("graphgpo", STD, "next_distance", [1, 0, 2, 3, 3]),
]
WITH_INVALID_B0 = [
    ("gigpo", MEAN, [11.416667, 5.05, -8.283333, -8.183333, -5.05]),
    ("gigpo", MEAN | VERL, [12.386667, 6.02, -7.313333, -7.113333, -3.98]),
    ("g2po", MEAN | G2PO, [17.078890, 5.723333, -6.104445, -11.921111, -4.776667]),
]
# fmt: on


def label(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else None


@pytest.mark.parametrize(("name", "options", "want"), TOTALS, ids=label)
def test_totals(name, options, want):
    got = compute_advantages(name, example(), EstimatorConfig(**options)).total
    np.testing.assert_allclose(got, want, atol=6e-6)


@pytest.mark.parametrize(("name", "options", "part", "want"), PARTS, ids=label)
def test_parts(name, options, part, want):
    got = compute_advantages(name, example(), EstimatorConfig(**options)).parts[part]
    np.testing.assert_allclose(got, want, atol=6e-7)


@pytest.mark.parametrize(("name", "options", "want"), WITH_INVALID_B0, ids=label)
def test_totals_with_an_invalid_action(name, options, want):
    got = compute_advantages(name, example(**B0_INVALID), EstimatorConfig(**options)).total
    np.testing.assert_allclose(got, want, atol=6e-6)


def test_stats_and_step_group_sizes():
    table = example()
    assert table.step_group_sizes().tolist() == [3, 1, 3, 3, 1]
    assert compute_advantages("gigpo", table).stats == {
        "rows": 5.0,
        "trajectories": 2.0,
        "groups": 1.0,
        "state_groups": 3.0,
        "singleton_row_share": 0.4,
        "mean_group_size": 5 / 3,
        "groups_below_two": 0.0,
        "groups_without_spread": 0.0,
    }


def test_reinforce_pp_normalises_the_returns_over_the_rows_of_the_batch():
    # Rows 10 10 0 0 0: mean 4, unbiased std sqrt((2 * 36 + 3 * 16) / 4) = sqrt(30).
    got = compute_advantages("reinforce_pp", example()).total
    np.testing.assert_allclose(got, np.array([6, 6, -4, -4, -4]) / (np.sqrt(30) + 1e-6))


def test_reinforce_pp_baseline_takes_the_group_mean_off_first():
    # 5 5 -5 -5 -5 over trajectories, 6 6 -4 -4 -4 over rows; then the batch mean goes off either way.
    for weighting in ("trajectory", "row"):
        config = EstimatorConfig(weighting=weighting)
        got = compute_advantages("reinforce_pp_baseline", example(), config).total
        np.testing.assert_allclose(got, np.array([6, 6, -4, -4, -4]) / (np.sqrt(30) + 1e-6))
    twice = TurnTable(
        group=[0, 0, 1, 1],
        traj=[0, 1, 0, 1],
        t=[0] * 4,
        state=["s"] * 4,
        reward=[1, 3, 10, 14],
        valid=[True] * 4,
        terminated=[True] * 4,
        truncated=[False] * 4,
        success=[True] * 4,
    )
    got = compute_advantages("reinforce_pp_baseline", twice).total
    np.testing.assert_allclose(got, np.array([-1, 1, -2, 2]) / (np.sqrt(10 / 3) + 1e-6))


def test_gae_by_hand():
    table = example(value=[4, 8, 2, 1, 3], next_value=[0, 100, 0, 0, 6])
    config = EstimatorConfig(gamma=0.5, lam=0.5)
    result = compute_advantages("gae", table, config)
    # A ended in the environment: no bootstrap. B was cut: the value 6 of the state reached counts.
    delta = [0.5 * 8 - 4, 10 - 8, 0.5 * 1 - 2, 0.5 * 3 - 1, 0.5 * 6 - 3]
    want = [delta[0] + 0.25 * delta[1], delta[1], delta[2] + 0.25 * (delta[3] + 0.25 * delta[4]), delta[3], delta[4]]
    np.testing.assert_allclose(result.parts["delta"], delta)
    np.testing.assert_allclose(result.total, want)
    np.testing.assert_allclose(result.parts["target"], np.array(want) + [4, 8, 2, 1, 3])
    whitened = compute_advantages("gae", table, EstimatorConfig(gamma=0.5, lam=0.5, whiten=True))
    np.testing.assert_allclose(whitened.total, (want - np.mean(want)) / (np.std(want, ddof=1) + 1e-6))
    np.testing.assert_allclose(whitened.parts["target"], result.parts["target"])


def test_gae_without_next_values_treats_a_cut_trajectory_as_ended():
    got = compute_advantages("gae", example(value=[0] * 4 + [3.0])).total
    assert got[4] == -3.0


def test_gae_errors_name_what_is_missing():
    with pytest.raises(ValueError, match=r"'gae' needs the critic's value of every row: pass TurnTable\(value="):
        compute_advantages("gae", example())
    with pytest.raises(ValueError, match="Row 4: next_value must be finite"):
        compute_advantages("gae", example(value=[0] * 5, next_value=[0, np.nan, 0, 0, np.nan]))


def test_graphgpo_uses_the_state_reached_by_a_cut_trajectory():
    # B ends in s1, from where A won in one turn: two turns from success, counted from s2.
    cut = example(next_state=["s1", None, "s0", "s2", "s1"])
    assert compute_advantages("graphgpo", cut).parts["next_distance"].tolist() == [1, 0, 2, 2, 1]
