"""The table refuses what would give wrong advantages, and names the row."""

import dataclasses
import pickle

import numpy as np
import pytest

from agent_envs.trainers.advantages import (
    EstimatorConfig,
    TurnTable,
    compute_advantages,
    estimator_names,
    get_estimator,
    groups_with_spread,
    register_estimator,
)
from agent_envs.trainers.advantages import registry as registry_module
from agent_envs.trainers.advantages.table import make_advantages


def columns(**changes):
    """Two trajectories of two turns in one group."""
    plain = {
        "group": ["g"] * 4,
        "traj": ["a", "a", "b", "b"],
        "t": [0, 1, 0, 1],
        "state": ["s", "x", "s", "y"],
        "reward": [0.0, 1.0, 0.0, 0.0],
        "valid": [True] * 4,
        "terminated": [False, True, False, True],
        "truncated": [False] * 4,
        "success": [True, True, False, False],
    }
    return plain | changes


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"t": [0, 2, 0, 1]}, ValueError, r"Row 1: trajectory \(group 'g', traj 'a'\) has turn t=2 but 2 rows"),
        ({"t": [0, -1, 0, 1]}, ValueError, r"Row 1: .* has turn t=-1"),
        ({"t": [0, 1, 0, 0]}, ValueError, r"Row 2: .* has turn t=0 twice \(also row 3\); give padding rows weight 0"),
        ({"t": [0.0, 1.0, 0.0, 1.0]}, TypeError, "Column 't' must hold integers, got dtype float64"),
        ({"reward": [0, np.nan, 0, 0]}, ValueError, "Row 1: reward must be finite and at most 1e.100 in size, got nan"),
        ({"reward": [0, 0, 0, -np.inf]}, ValueError, "Row 3: reward must be finite .* got -inf"),
        ({"reward": [0, 0, 1e200, 0]}, ValueError, "Row 2: reward must be finite"),
        ({"reward": ["0", "0", "1", "0"]}, TypeError, "Column 'reward' must hold numbers, got dtype <U1"),
        ({"reward": [[0.0], [0.0], [1.0], [0.0]]}, ValueError, r"'reward' must have shape \[n\], got shape \[4, 1\]"),
        ({"reward": [0.0, 1.0, 0.0]}, ValueError, "'reward' has 3 rows, 'state' has 4"),
        ({"group": ["g"] * 5}, ValueError, "'group' has 5 rows, 'state' has 4"),
        ({"next_state": ["s"]}, ValueError, "'next_state' has 1 rows, 'state' has 4"),
        ({"valid": [1, 1, 2, 1]}, ValueError, "Row 2: valid must be 0 or 1, got 2"),
        ({"valid": ["yes"] * 4}, TypeError, "Column 'valid' must hold booleans"),
        ({"weight": [1, 0.5, 1, 1]}, ValueError, "Row 1: weight must be 0 or 1, got 0.5"),
        ({"terminated": [True, True, False, True]}, ValueError, "Row 0: terminated is set, .* goes on after turn 0"),
        ({"truncated": [False, False, True, False]}, ValueError, "Row 2: truncated is set, .*traj 'b'"),
        ({"success": [True, False, False, False]}, ValueError, "Row 1: success must be the same on all rows"),
        ({"state": ["s", None, "s", "y"]}, TypeError, "Row 1: state must be a str, bytes or int key, got NoneType"),
        ({"state": ["s", "x", 1.0, "y"]}, TypeError, "Row 2: state must be .* got float 1.0"),
        ({"state": [1, True, 1, 0]}, TypeError, "Row 1: state must be .* got bool True"),
        ({"state": "sxsy"}, TypeError, "Column 'state' must be a sequence of keys, got one str"),
        ({"traj": [("a",)] * 4}, TypeError, "Row 0: traj must be .* got tuple"),
        ({"next_state": ["s", 2.5, "s", "s"]}, TypeError, "Row 1: next_state must be .* got float"),
        ({"value": [0, 0, np.inf, 0]}, ValueError, "Row 2: value must be finite"),
    ],
)
def test_bad_columns(changes, error, text):
    with pytest.raises(error, match=text):
        TurnTable(**columns(**changes))


def test_a_row_of_weight_0_may_hold_anything():
    bad = columns(
        t=[0, 1, 0, 7], reward=[0, 1, 0, np.nan], terminated=[0, 1, 0, 0], success=[1, 1, 0, 1], weight=[1, 1, 1, 0]
    )
    total = compute_advantages("grpo", TurnTable(**bad)).total
    assert total.tolist() == [0.5, 0.5, -0.5, 0.0]


def test_a_gap_left_by_a_row_of_weight_0_is_an_error():
    with pytest.raises(ValueError, match="Row 1: .* has turn t=1 but 1 rows"):
        TurnTable(**columns(weight=[0, 1, 1, 1]))


def test_a_trajectory_key_may_recur_in_another_group():
    table = TurnTable(**columns(group=["g", "g", "h", "h"], traj=[0] * 4))
    assert table.index.num_trajs == 2
    assert compute_advantages("grpo", table).stats["groups_below_two"] == 2.0


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_columns_may_be_lists_tuples_or_arrays(kind):
    table = TurnTable(**{name: kind(column) for name, column in columns().items()})
    assert (
        compute_advantages("gigpo", table).total.tolist()
        == compute_advantages("gigpo", TurnTable(**columns())).total.tolist()
    )


def test_str_bytes_and_int_keys_never_meet():
    table = TurnTable(**columns(state=["1", b"1", 1, "1"]))
    assert table.step_group_sizes().tolist() == [2, 1, 1, 2]


def test_the_table_keeps_its_own_copy():
    reward = np.array([0.0, 1.0, 0.0, 0.0])
    table = TurnTable(**columns(reward=reward))
    reward[:] = 7
    assert table.reward.tolist() == [0, 1, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        table.reward[0] = 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.t = [0]


def test_a_pickled_table_gives_the_same():
    table = TurnTable(**columns())
    copy = pickle.loads(pickle.dumps(table))
    assert compute_advantages("g2po", copy).total.tolist() == compute_advantages("g2po", table).total.tolist()


def test_groups_with_spread_looks_at_outcomes_without_penalties():
    table = TurnTable(
        group=["late", "late", "equal", "equal", "noise", "noise", "lone", "early", "early", "early"],
        traj=[0, 1, 0, 1, 0, 1, 0, 0, 1, 2],
        t=[0] * 10,
        state=["s"] * 10,
        reward=[1, 0, 5, 5, 0.3, 0.1 + 0.2, 3, 2, 2, 9],
        valid=[True, True, True, False, True, True, True, True, True, True],
        terminated=[True] * 10,
        truncated=[False] * 10,
        success=[False] * 10,
        weight=[1] * 9 + [0],
    )
    assert groups_with_spread(table) == ["late"]
    assert groups_with_spread(dataclasses.replace(table, weight=None)) == ["late", "early"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"norm": "std"}, ValueError, "norm must be one of None, 'mean_norm', 'mean_std_norm', got 'std'"),
        ({"compat": "verl"}, ValueError, "compat must be one of None, 'verl-agent', 'g2po', got 'verl'"),
        ({"ddof": True}, ValueError, "ddof must be one of None, 0, 1, got True"),
        ({"gamma": 1.5}, ValueError, r"gamma must be in \[0, 1\], got 1.5"),
        ({"penalty_coef": -0.1}, ValueError, "penalty_coef must be in .*, got -0.1"),
        ({"eps": 0}, ValueError, "eps must be in .*, got 0"),
        ({"w": float("nan")}, ValueError, "w must be in .*, got nan"),
        ({"gamma": "0.95"}, TypeError, "gamma must be a number, got '0.95'"),
        ({"context_length": 1.5}, TypeError, "context_length must be an int, got 1.5"),
        ({"whiten": "no"}, TypeError, "whiten must be True or False, got 'no'"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        EstimatorConfig(**options)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("gagpo", {"compat": "verl-agent"}, "compat='verl-agent' is not available for 'gagpo': leave it None"),
        ("g2po", {"compat": "verl-agent"}, "compat='verl-agent' is not available for 'g2po': use 'g2po'"),
        ("rloo", {"norm": "mean_std_norm"}, "norm='mean_std_norm' contradicts 'rloo'"),
        ("dr_grpo", {"norm": "mean_std_norm"}, "norm='mean_std_norm' contradicts 'dr_grpo'"),
        ("gagpo", {"penalty": "row"}, "penalty='row' has no meaning for 'gagpo'"),
        ("hgpo", {"base_group": True}, "base_group=True belongs to the released code"),
    ],
)
def test_options_an_estimator_cannot_honour(name, options, text):
    with pytest.raises(ValueError, match=text):
        compute_advantages(name, TurnTable(**columns()), EstimatorConfig(**options))


def test_registry_knows_the_estimators():
    assert estimator_names() == (
        "dr_grpo",
        "g2po",
        "gae",
        "gagpo",
        "gigpo",
        "graphgpo",
        "grpo",
        "hgpo",
        "reinforce_pp",
        "reinforce_pp_baseline",
        "rloo",
    )
    with pytest.raises(ValueError, match="Unknown estimator 'gigop'. Did you mean 'gigpo'. Known: dr_grpo, g2po, "):
        get_estimator("gigop")


def test_an_own_estimator_can_be_registered_once(monkeypatch):
    monkeypatch.setattr(registry_module, "_ESTIMATORS", dict(registry_module._ESTIMATORS))

    @register_estimator("raw_return")
    def raw_return(table, config):
        index = table.index
        return make_advantages(table, index.outcome[index.traj], {})

    assert compute_advantages("raw_return", TurnTable(**columns())).total.tolist() == [1, 1, 0, 0]
    assert register_estimator("raw_return")(raw_return) is raw_return
    with pytest.raises(ValueError, match="Estimator 'gigpo' is already registered as agent_envs.*gigpo.gigpo"):
        register_estimator("gigpo")(raw_return)
