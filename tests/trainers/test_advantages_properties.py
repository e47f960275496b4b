"""Properties every estimator must have, on random batches."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.trainers.advantages import EstimatorConfig, TurnTable, compute_advantages, estimator_names

COMPAT = {
    "grpo": "verl-agent",
    "dr_grpo": "verl-agent",
    "rloo": "verl-agent",
    "gigpo": "verl-agent",
    "g2po": "g2po",
    "hgpo": "verl-agent",
    "graphgpo": "verl-agent",
}
GLOBAL = {"reinforce_pp", "reinforce_pp_baseline"}  # normalised over the batch by design
LINEAR = ("grpo", "dr_grpo", "rloo", "gigpo", "g2po", "hgpo", "gagpo")
quick = settings(max_examples=10, deadline=None)

rewards = st.one_of(st.sampled_from([0.0, 0.0, 1.0, 10.0]), st.floats(-10, 10).map(lambda x: round(x, 2)))
turn = st.tuples(st.integers(0, 3), rewards, st.booleans(), st.floats(-5, 5))
trajectory = st.tuples(st.lists(turn, min_size=1, max_size=5), st.booleans(), st.booleans())
batches = st.lists(st.lists(trajectory, min_size=1, max_size=4), min_size=0, max_size=3)


def to_columns(batch):
    columns = {
        name: [] for name in "group traj t state next_state reward valid terminated truncated success value".split()
    }
    for group, members in enumerate(batch):
        for member, (turns, success, cut) in enumerate(members):
            for t, (state, reward, valid, value) in enumerate(turns):
                end = t == len(turns) - 1
                after = turns[t + 1][0] if not end else 7 if cut else None
                row = (group, member, t, state, after, reward, valid, end and not cut, end and cut, success, value)
                for name, entry in zip(columns, row, strict=True):
                    columns[name].append(entry)
    return columns


def variants():
    """Every estimator, in the papers' and in the released form, with and without std."""
    for name in estimator_names():
        for norm in ("mean_norm", "mean_std_norm"):
            if name in ("dr_grpo", "rloo") and norm == "mean_std_norm":
                continue
            for compat in dict.fromkeys([None, COMPAT.get(name)]):
                yield name, EstimatorConfig(norm=norm, compat=compat)


VARIANTS = list(variants())
each_variant = pytest.mark.parametrize(
    ("name", "config"), VARIANTS, ids=[f"{name}-{config.norm}-{config.compat}" for name, config in VARIANTS]
)


def assert_close(got, want, variant, rtol=1e-9, atol=1e-9):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=str(variant))


def permuted(columns, order):
    return {name: [column[i] for i in order] for name, column in columns.items()}


@quick
@given(batch=batches, random=st.randoms(use_true_random=False))
def test_row_order_does_not_matter(batch, random):
    columns = to_columns(batch)
    order = list(range(len(columns["t"])))
    random.shuffle(order)
    table, shuffled = TurnTable(**columns), TurnTable(**permuted(columns, order))
    for name, config in VARIANTS:
        plain, moved = compute_advantages(name, table, config), compute_advantages(name, shuffled, config)
        # Sums are added up in another order; std normalisation may divide the difference by eps.
        assert_close(moved.total, plain.total[order], (name, config), rtol=1e-7, atol=2e-7)
        assert moved.stats == plain.stats


@quick
@given(batch=batches)
def test_groups_are_independent(batch):
    columns = to_columns(batch)
    table = TurnTable(**columns)
    members = [[i for i, of in enumerate(columns["group"]) if of == group] for group in range(len(batch))]
    alone = [TurnTable(**(permuted(columns, rows) | {"group": ["other name"] * len(rows)})) for rows in members]
    for name, config in VARIANTS:
        if name in GLOBAL:
            continue
        whole = compute_advantages(name, table, config).total
        for rows, group in zip(members, alone, strict=True):
            assert_close(compute_advantages(name, group, config).total, whole[rows], (name, config))


@quick
@given(batch=batches, data=st.data())
def test_rows_of_weight_0_change_nothing_and_get_0(batch, data):
    columns = to_columns(batch)
    count = len(columns["t"])
    copies = data.draw(st.lists(st.integers(0, count - 1), max_size=4)) if count else []
    padded = permuted(columns, [*range(count), *copies]) | {"weight": [1.0] * count + [0.0] * len(copies)}
    table, longer = TurnTable(**columns), TurnTable(**padded)
    for name, config in VARIANTS:
        plain, result = compute_advantages(name, table, config), compute_advantages(name, longer, config)
        np.testing.assert_array_equal(result.total[:count], plain.total, str((name, config)))
        assert not result.total[count:].any()
        assert all(not part[count:].any() for part in result.parts.values())
        assert result.stats == plain.stats


@pytest.mark.parametrize("name", LINEAR)
@quick
@given(batch=batches, scale=st.sampled_from([0.01, 0.5, 3.0, 1000.0]))
def test_mean_norm_is_linear_in_rewards_and_penalty(name, batch, scale):
    config = EstimatorConfig(norm="mean_norm")
    columns = to_columns(batch)
    scaled = columns | {"reward": [scale * reward for reward in columns["reward"]]}
    larger = dataclasses.replace(config, penalty_coef=scale * config.penalty_coef)
    np.testing.assert_allclose(
        compute_advantages(name, TurnTable(**scaled), larger).total,
        scale * compute_advantages(name, TurnTable(**columns), config).total,
        rtol=1e-9,
        atol=1e-9 * scale,
    )


@pytest.mark.parametrize("norm", ["mean_norm", "mean_std_norm"])
@pytest.mark.parametrize("weighting", ["trajectory", "row"])
@quick
@given(batch=batches, constant=st.sampled_from([-3.0, 0.25, 8.0]))
def test_a_constant_on_all_returns_of_a_group_leaves_the_episode_part(norm, weighting, batch, constant):
    config = EstimatorConfig(norm=norm, weighting=weighting)
    columns = to_columns(batch)
    moved = columns | {
        "reward": [r + constant * (t == 0) for r, t in zip(columns["reward"], columns["t"], strict=True)]
    }
    np.testing.assert_allclose(
        compute_advantages("grpo", TurnTable(**moved), config).total,
        compute_advantages("grpo", TurnTable(**columns), config).total,
        rtol=1e-7,
        atol=2e-7,
    )


@each_variant
@pytest.mark.parametrize("reward", [9.9, 0.3, 0.1 + 0.2])
def test_equal_outcomes_have_an_episode_part_of_exactly_0(name, config, reward):
    # 38 rows of 9.9 leave 0.65 in float32 arithmetic that divides before it compares.
    batch = [[([(state % 3, 0.0, True, 0.0) for state in range(length)], True, False) for length in (8, 12, 18)]]
    for turns, _, _ in batch[0]:
        turns[-1] = (turns[-1][0], reward, True, 0.0)
    if config.compat and name == "hgpo":
        config = dataclasses.replace(config, base_group=True)
    result = compute_advantages(name, TurnTable(**to_columns(batch)), config)
    if "episode" in result.parts:
        assert not result.parts["episode"].any()
    elif name == "hgpo":
        assert np.abs(result.total).max() > 0
    assert result.stats["groups_without_spread"] == 1.0


@pytest.mark.parametrize("norm", ["mean_norm", "mean_std_norm"])
@quick
@given(batch=batches)
def test_gigpo_is_grpo_where_no_state_repeats(norm, batch):
    columns = to_columns(batch)
    columns["state"] = list(range(len(columns["t"])))
    config = EstimatorConfig(norm=norm)
    table = TurnTable(**columns)
    np.testing.assert_array_equal(
        compute_advantages("gigpo", table, config).total, compute_advantages("grpo", table, config).total
    )


@pytest.mark.parametrize("norm", ["mean_norm", "mean_std_norm"])
@quick
@given(batch=batches)
def test_sums_are_zero(norm, batch):
    table = TurnTable(**to_columns(batch))
    index = table.index
    for weighting in ("trajectory", "row"):
        config = EstimatorConfig(norm=norm, weighting=weighting)
        episode = compute_advantages("grpo", table, config).total[index.position]
        samples = episode[index.start] if weighting == "trajectory" else episode
        of = index.traj_group if weighting == "trajectory" else index.group
        np.testing.assert_allclose(np.bincount(of, samples, index.num_groups), 0, atol=1e-6)
    step = compute_advantages("gigpo", table, EstimatorConfig(norm=norm)).parts["step"][index.position]
    np.testing.assert_allclose(np.bincount(index.node, step, index.num_nodes), 0, atol=1e-6)
    edge = compute_advantages("g2po", table, EstimatorConfig(norm=norm)).parts["edge"][index.position]
    np.testing.assert_allclose(np.bincount(index.group, edge, index.num_groups), 0, atol=1e-6)


@given(gamma=st.floats(0.05, 0.99), reward=st.floats(0.01, 100))
def test_g2po_credits_the_winning_step_from_an_unshared_state(gamma, reward):
    columns = to_columns([[([(0, 0.0, True, 0), (1, reward, True, 0)], True, False), ([(0, 0.0, True, 0)], 0, False)]])
    columns["success"] = [True, True, False]
    parts = compute_advantages("g2po", TurnTable(**columns), EstimatorConfig(gamma=gamma)).parts
    gain = parts["next_value"][1] - parts["value"][1]
    assert gain > 0
    assert gain == pytest.approx((1 - gamma) * reward)


@pytest.mark.parametrize("norm", ["mean_norm", "mean_std_norm"])
@pytest.mark.parametrize("weights", ["skip", "fixed"])
@quick
@given(batch=batches)
def test_hgpo_without_context_is_the_step_part_of_gigpo(norm, weights, batch):
    table = TurnTable(**to_columns(batch))
    config = EstimatorConfig(norm=norm, ddof=0, context_length=0, hgpo_weights=weights)
    np.testing.assert_allclose(
        compute_advantages("hgpo", table, config).total,
        compute_advantages("gigpo", table, config).parts["step"],
        atol=1e-12,
    )


@each_variant
def test_no_rows_give_no_advantages(name, config):
    columns = to_columns([])
    assert compute_advantages(name, TurnTable(**columns), config).total.shape == (0,)
    only_padding = to_columns([[([(0, 1.0, True, 0.0)], True, False)]]) | {"weight": [0]}
    assert compute_advantages(name, TurnTable(**only_padding), config).total.tolist() == [0.0]


extreme = st.one_of(rewards, st.sampled_from([1e-300, -1e100, 1e100, 5e-324, 1e16, 1 / 3]))
wild_turn = st.tuples(st.integers(0, 2), extreme, st.booleans(), st.floats(-5, 5))
wild = st.lists(
    st.lists(st.tuples(st.lists(wild_turn, min_size=1, max_size=4), st.booleans(), st.booleans()), min_size=1),
    min_size=1,
    max_size=3,
)


@quick
@given(batch=wild)
def test_extreme_rewards_stay_finite(batch):
    table = TurnTable(**to_columns(batch))
    for name, config in VARIANTS:
        result = compute_advantages(name, table, config)
        assert np.isfinite(result.total).all(), (name, config)
        assert all(np.isfinite(part).all() for part in result.parts.values())


def random_batch(rng):
    def turns():
        rows = zip(rng.integers(0, 3, 4), rng.choice([0, 0, 0.3, 1, 9.9, 10], 4), rng.random(4) < 0.8, strict=True)
        return [(int(state), float(reward), bool(valid), 0.0) for state, reward, valid in rows][: rng.integers(1, 5)]

    return [
        [(turns(), bool(rng.random() < 0.5), bool(rng.random() < 0.5)) for _ in range(rng.integers(1, 4))]
        for _ in range(rng.integers(1, 3))
    ]


@pytest.mark.slow
def test_ten_thousand_small_batches_stay_finite_in_every_mode():
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        table = TurnTable(**to_columns(random_batch(rng)))
        for name, config in VARIANTS:
            assert np.isfinite(compute_advantages(name, table, config).total).all(), (name, config, table)
