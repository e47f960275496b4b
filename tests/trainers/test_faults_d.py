"""Faults of other projects' advantage code: each test is one fault, its id in the name."""

import numpy as np
import pytest

import agent_envs
from agent_envs.trainers.advantages import EstimatorConfig, TurnTable, compute_advantages

MEAN = EstimatorConfig(norm="mean_norm")
STD = EstimatorConfig(norm="mean_std_norm")


def walks(*members, **changes):
    """One group; a member is its states and its last reward, and it succeeds if that is above 0."""
    rows = [
        (member, t, state, reward * (t == len(states) - 1), t == len(states) - 1, reward > 0)
        for member, (states, reward) in enumerate(members)
        for t, state in enumerate(states)
    ]
    traj, t, state, reward, terminated, success = (list(column) for column in zip(*rows, strict=True))
    columns = {
        "group": [0] * len(rows),
        "traj": traj,
        "t": t,
        "state": state,
        "reward": reward,
        "valid": [True] * len(rows),
        "terminated": terminated,
        "truncated": [False] * len(rows),
        "success": success,
    }
    return TurnTable(**(columns | changes))


def test_d1_g2po_knows_no_reward_constant():
    one, ten = (walks((["s0", "s1"], r), (["s0"], 0.0)) for r in (1.0, 10.0))
    small, large = (compute_advantages("g2po", table, MEAN) for table in (one, ten))
    np.testing.assert_allclose(large.total, 10 * small.total, rtol=1e-12)
    assert small.parts["next_value"][1] > small.parts["value"][1]  # the winning step gains
    assert small.parts["edge"][0] > 0
    np.testing.assert_array_equal(
        np.sign(compute_advantages("g2po", one, STD).total), np.sign(compute_advantages("g2po", ten, STD).total)
    )


def test_d3_boards_enter_as_keys_and_never_as_arrays():
    boards = [np.zeros((10, 10), np.uint8) for _ in range(3)]
    with pytest.raises(TypeError, match="Row 0: state must be a str, bytes or int key, got ndarray"):
        walks((["s0", "s1"], 1.0), (["s0"], 0.0), state=boards)
    digests = [board.tobytes() for board in boards]
    table = walks((["s0", "s1"], 1.0), (["s0"], 0.0), state=digests)
    assert table.step_group_sizes().tolist() == [3, 3, 3]


def test_d4_the_baseline_is_per_trajectory_or_per_row_and_named():
    table = walks((["a", "b"], 10.0), (["c", "d", "e"], 0.0))
    assert EstimatorConfig().weighting == "trajectory"
    by_trajectory = compute_advantages("grpo", table, MEAN).total
    by_row = compute_advantages("grpo", table, EstimatorConfig(norm="mean_norm", weighting="row")).total
    assert by_trajectory.tolist() == [5, 5, -5, -5, -5]
    assert by_row.tolist() == [6, 6, -4, -4, -4]


@pytest.mark.parametrize("name", ["grpo", "gigpo", "g2po"])
@pytest.mark.parametrize("compat", [None, "g2po"])
def test_d5_a_padding_copy_of_the_winning_row_changes_nothing(name, compat):
    table = walks((["s"], 10.0), (["t"], 0.0), (["s"], 10.0), traj=[0, 1, 0], weight=[1, 1, 0])
    result = compute_advantages(name, table, EstimatorConfig(norm="mean_norm", compat=compat))
    assert result.parts["episode"].tolist() == [5, -5, 0]
    assert result.total[2] == 0
    assert result.stats["rows"] == 2


def test_d9_one_sample_never_gives_nan_and_the_policy_is_an_option():
    table = walks((["s"], 10.0))
    for ddof in (0, 1):
        zero = EstimatorConfig(norm="mean_std_norm", ddof=ddof)
        raw = EstimatorConfig(norm="mean_std_norm", ddof=ddof, singleton="raw")
        assert compute_advantages("grpo", table, zero).total.tolist() == [0.0]
        assert compute_advantages("grpo", table, raw).total[0] == pytest.approx(10.0, abs=2e-5)
    raw = EstimatorConfig(norm="mean_norm", singleton="raw")
    assert compute_advantages("grpo", table, raw).total.tolist() == [10.0]
    # The released code gives NaN here.
    assert np.isfinite(compute_advantages("g2po", table, EstimatorConfig(norm="mean_std_norm", compat="g2po")).total[0])
    assert compute_advantages("grpo", table, STD).stats["groups_below_two"] == 1


def test_d10_an_advantage_that_happens_to_be_0_keeps_its_level_in_the_mean():
    # Returns 2, 1, 0 from (p, s), (p, s), (q, s) and more: in the group of s alone the row of return 1 is average.
    table = walks((["p", "s"], 2.0), (["p", "s"], 1.0), (["q", "s"], 0.0))
    config = EstimatorConfig(norm="mean_norm", context_length=1, gamma=1.0)
    total = compute_advantages("hgpo", table, config).total
    # Row (p, s) of return 1: level 0 gives 1 - mean(2, 1, 0) = 0, level 1 gives 1 - mean(2, 1) = -0.5; weights 1, 2.
    assert total[3] == pytest.approx(-0.5 * 2 / 3)
    # Row (q, s) is alone at level 1, which leaves its mean.
    assert total[5] == pytest.approx(-1.0)


def test_d12_the_penalty_is_in_the_reward_or_on_the_row():
    table = walks((["s0", "s1", "s2"], 0.0), (["s0", "s1", "s2"], 0.0), valid=[True, False, True, True, True, True])
    in_reward = compute_advantages("gigpo", table, EstimatorConfig(norm="mean_norm", penalty="reward", gamma=0.5))
    on_row = compute_advantages("gigpo", table, EstimatorConfig(norm="mean_norm", penalty="row", gamma=0.5))
    nowhere = compute_advantages("gigpo", table, EstimatorConfig(norm="mean_norm", penalty="none", gamma=0.5))
    assert in_reward.parts["return"].tolist() == [-0.05, -0.1, 0, 0, 0, 0]
    np.testing.assert_allclose(in_reward.parts["episode"], [-0.05] * 3 + [0.05] * 3)
    assert on_row.parts["return"].tolist() == [0, -0.1, 0, 0, 0, 0]
    assert on_row.parts["episode"][0] != on_row.parts["episode"][1]
    assert not nowhere.total.any()
    assert "penalty='reward'" in repr(EstimatorConfig())  # what a run records


def test_d14_keys_come_from_anywhere():
    walk = (["kitchen", "hall"], 1.0), (["kitchen"], 0.0)
    keys = {
        "text": ["kitchen", "hall", "kitchen"],
        "bytes": [b"\x00", b"\xff", b"\x00"],
        "numbers": np.array([7, 9, 7]),
    }
    totals = [compute_advantages("gigpo", walks(*walk, state=column)).total.tolist() for column in keys.values()]
    assert totals[0] == totals[1] == totals[2]
    # An environment of the package is not needed, and neither is one of its keys.
    assert agent_envs.Turn.__dataclass_fields__["state_key"].type == "str"
