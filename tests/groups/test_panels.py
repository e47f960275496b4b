"""Panels: each task once, the same result for every batch shape."""

import json
import math

import numpy as np
import pytest
from toy_envs import ToyShopEnv, shop

from agent_envs import Panel
from agent_envs.errors import PanelMismatchError, ServiceDownError
from agent_envs.groups import GroupVectorEnv
from agent_envs.panels import evaluate, wilson_interval

# Plays the oracle of some tasks and fails on the others; reads its row's own observation only.
KNOWN = {"café cup": 0, "naïve print": 2}


def panel(indices=(0, 1, 2, 3, 4), split="train"):
    return Panel(
        env_id="toys/Shop-v0", env_kwargs={}, split=split, indices=indices, fingerprint=ToyShopEnv().fingerprint(split)
    )


class HalfTrainedPolicy:
    """Opens the page of the tasks it knows, the first page otherwise, then draws once and buys."""

    def __init__(self):
        self.calls = []
        self.goals = {}

    def __call__(self, observations, infos, rows):
        self.calls.append(list(rows))
        actions = []
        for row in rows:
            if infos["turn"][row] == 0:
                self.goals[row] = KNOWN.get(infos["task"][row].removeprefix("buy "), 0)
            actions.append([f"open {self.goals[row]}", "draw", "buy"][infos["turn"][row]])
        return actions


@pytest.mark.parametrize(("num_envs", "group_size"), [(1, 1), (2, 1), (3, 1), (4, 1), (8, 1), (5, 1)])
def test_result_is_independent_of_the_number_of_environments(num_envs, group_size):
    result = evaluate(HalfTrainedPolicy(), panel(), GroupVectorEnv(shop, num_envs=num_envs, group_size=group_size))
    expected = evaluate(HalfTrainedPolicy(), panel(), GroupVectorEnv(shop, num_envs=1, group_size=1))
    assert result == expected
    assert [task.task_index for task in result.tasks] == [0, 1, 2, 3, 4]
    assert [task.task_id for task in result.tasks] == [f"toyshop/train/{i}" for i in range(5)]
    assert [task.success for task in result.tasks] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert result.success_rate == pytest.approx(0.4) and result.mean_score == pytest.approx(0.4)
    assert result.mean_turns == 3.0 and result.num_errors == 0
    drawn = [task.episode_return - 10 * task.success for task in result.tasks]
    assert all(0 < value < 1 for value in drawn) and len(set(drawn)) == 5


def test_each_task_is_played_group_size_times():
    result = evaluate(HalfTrainedPolicy(), panel(), GroupVectorEnv(shop, num_envs=6, group_size=3))
    assert [task.plays for task in result.tasks] == [3] * 5 and result.group_size == 3
    assert result.success_rate == pytest.approx(0.4)


def test_only_rows_that_act_are_asked():
    policy = HalfTrainedPolicy()
    evaluate(policy, panel(), GroupVectorEnv(shop, num_envs=4, group_size=1))
    assert policy.calls == [[0, 1, 2, 3]] * 3 + [[0]] * 3  # the last batch is padded


def test_a_second_evaluation_and_other_use_in_between_change_nothing():
    vec = GroupVectorEnv(shop, num_envs=4, group_size=2)
    first = evaluate(HalfTrainedPolicy(), panel(), vec)
    vec.reset(seed=9)
    vec.step(["draw"] * 4)
    assert evaluate(HalfTrainedPolicy(), panel(), vec) == first
    assert evaluate(HalfTrainedPolicy(), panel(), vec, seed=1) != first  # the draws differ


def test_infrastructure_errors_count_neither_way_and_are_reported():
    half = HalfTrainedPolicy()

    def policy(observations, infos, rows):
        failing = [infos["task_id"][row].endswith("/1") and row % 2 for row in rows]
        actions = half(observations, infos, rows)
        return ["fault raise" if fails else action for fails, action in zip(failing, actions, strict=True)]

    vec = GroupVectorEnv(lambda: shop(fail_resets=(4,)), num_envs=4, group_size=2)
    result = evaluate(policy, panel(), vec)
    assert [(task.plays, task.errors) for task in result.tasks] == [(2, 0), (1, 1), (2, 0), (2, 0), (0, 2)]
    assert result.num_errors == 3 and result.success_rate == pytest.approx(0.5)  # 4 tasks have a play that counts
    assert math.isnan(result.tasks[4].success)
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert json.loads(text)["tasks"][4]["success"] is None
    assert "success 0.500 [" in result.summary() and "errors 3" in result.summary()


def test_nothing_but_errors_raises_the_first_one():
    vec = GroupVectorEnv(lambda: shop(fail_resets=(4,)), num_envs=2, group_size=2)
    with pytest.raises(ServiceDownError, match="First error: error_env: RuntimeError: no shop 4"):
        evaluate(HalfTrainedPolicy(), panel(indices=(4,)), vec)


def test_panel_of_other_data_is_refused():
    other = Panel(env_id="toys/Shop-v0", env_kwargs={}, split="train", indices=(0,), fingerprint="1f3a" * 4)
    with pytest.raises(PanelMismatchError, match="made for data 1f3a1f3a1f3a1f3a, this installation has"):
        evaluate(HalfTrainedPolicy(), other, GroupVectorEnv(shop, num_envs=1, group_size=1))


def test_policy_that_returns_too_few_actions_is_told():
    with pytest.raises(ValueError, match="Expected 2 actions, one per entry of rows, got 1"):
        evaluate(lambda *_: ["x"], panel(), GroupVectorEnv(shop, num_envs=2, group_size=1))


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (90, 100, 0.8256, 0.9448)],
)
def test_wilson_interval_against_published_values(successes, count, low, high):
    assert wilson_interval(successes / count, count) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


@pytest.mark.parametrize(("rate", "count"), [(1.1, 5), (-0.1, 5), (0.5, 0)])
def test_wilson_interval_refuses_nonsense(rate, count):
    with pytest.raises(ValueError, match="rate must be in"):
        wilson_interval(rate, count)


def test_wilson_interval_stays_inside_and_shrinks():
    widths = [np.diff(wilson_interval(0.3, n))[0] for n in (10, 100, 1000)]
    assert widths == sorted(widths, reverse=True)
