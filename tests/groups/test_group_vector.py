"""GroupVectorEnv: batch layout, seeds, idling, flags, info, arguments."""

import random
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from toy_envs import MixedInfoEnv, OwnTaskTableEnv, ToyGridEnv, ToyShopEnv, UnseededEnv, not_an_agent_env, shop

from agent_envs import derive_seed
from agent_envs.errors import GroupMismatchError
from agent_envs.groups import GroupVectorEnv


def batch(num_envs=4, group_size=2, factory=shop, **kwargs):
    return GroupVectorEnv(factory, num_envs=num_envs, group_size=group_size, **kwargs)


def test_rows_of_a_group_share_seed_task_and_first_key():
    vec = batch(128, 8)
    observations, info = vec.reset(seed=0)
    assert (vec.num_groups, vec.group_size) == (16, 8)
    assert vec.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert vec.group_index.tolist() == [row // 8 for row in range(128)]
    assert isinstance(observations, tuple) and observations in vec.observation_space
    for name in ("state_key", "task_id", "luck"):
        values = info[name].reshape(16, 8)
        assert (values == values[:, :1]).all()
    assert len(set(info["task_id"])) > 1 and len(set(info["luck"])) == 16
    assert info["active"].all()


def test_group_seeds_are_derived_and_reproducible():
    vec = batch(4, 2)
    _, info = vec.reset(seed=3)
    for group in range(2):
        single = ToyShopEnv()
        _, expected = single.reset(seed=derive_seed(3, "group", group))
        assert info["luck"][2 * group] == expected["luck"]
    _, again = vec.reset(seed=3)
    assert again["luck"].tolist() == info["luck"].tolist()
    _, after = vec.reset()
    vec.reset(seed=3)
    assert vec.reset()[1]["luck"].tolist() == after["luck"].tolist()
    _, listed = vec.reset(seed=[derive_seed(3, "group", 1), derive_seed(3, "group", 0)])
    assert listed["luck"].tolist() == info["luck"][[2, 3, 0, 1]].tolist()


def test_group_one_of_seed_zero_is_not_group_zero_of_seed_one():
    vec = batch(4, 2)
    first, second = vec.reset(seed=0)[1]["luck"], vec.reset(seed=1)[1]["luck"]
    assert not set(first) & set(second)


def test_task_index_for_all_or_per_group_and_split():
    vec = batch(4, 2)
    assert vec.reset(options={"task_index": 4})[1]["task_id"].tolist() == ["toyshop/train/4"] * 4
    _, info = vec.reset(options={"task_index": np.array([1, 0]), "split": "valid"})
    assert info["task_id"].tolist() == ["toyshop/test/1"] * 2 + ["toyshop/test/0"] * 2


def test_idle_group_from_the_start():
    vec = batch(4, 2)
    observations, info = vec.reset(seed=0, options={"task_index": [-1, 2]})
    assert observations[:2] == ("", "") and observations in vec.observation_space
    assert info["active"].tolist() == info["_state_key"].tolist() == [False, False, True, True]
    _, rewards, terminations, truncations, info = vec.step(["open 2"] * 4)
    assert info["active"].tolist() == [False, False, True, True]
    assert terminations.tolist() == [False] * 4 and truncations.tolist() == [True, True, False, False]
    _, rewards, *_ = vec.step(["buy"] * 4)
    assert rewards.tolist() == [0.0, 0.0, 10.0, 10.0]


def test_idle_rows_of_an_image_env_hold_a_blank_frame():
    vec = batch(4, 2, ToyGridEnv)
    observations, _ = vec.reset(seed=0, options={"task_index": [3, -1]})
    assert observations in vec.observation_space
    assert observations["image"].shape == (4, 16, 16, 3) and observations["image"].dtype == np.uint8
    assert observations["image"][:2].any() and not observations["image"][2:].any()
    assert observations["text"] == ("Reach the red tile.",) * 2 + ("",) * 2


def test_finished_row_idles_with_sticky_flags_and_its_last_observation():
    vec = batch(2, 2)
    vec.reset(seed=0, options={"task_index": 2})
    vec.step(["open 2", "open 1"])
    _, rewards, terminations, _, info = vec.step(["buy", "back"])
    assert rewards.tolist() == [10.0, 0.0] and terminations.tolist() == [True, False]
    assert info["active"].all() and info["success"].tolist() == [True, False]
    observations, rewards, terminations, truncations, info = vec.step(["open 3", "open 2"])
    assert rewards.tolist() == [0.0, 0.0] and info["active"].tolist() == [False, True]
    assert info["_state_key"].tolist() == [False, True] and info["state_key"][0] is None
    assert observations[0] == f"Page: {ToyShopEnv.ITEMS[2]}"
    for _ in range(12):
        _, _, terminations, truncations, info = vec.step(["", ""])
    assert terminations.tolist() == [True, False] and truncations.tolist() == [False, True]
    assert vec.step(["", ""])[4]["active"].tolist() == [False, False]


def test_rows_step_a_subset_in_any_order():
    vec = batch(4, 2)
    before, _ = vec.reset(seed=0, options={"task_index": 1})
    observations, _, terminations, truncations, info = vec.step(["open 1", "open 3"], rows=[2, 0])
    assert info["active"].tolist() == [True, False, True, False]
    assert info["turn"].tolist() == [1, 0, 1, 0] and info["_turn"].tolist() == [True, False, True, False]
    assert observations[2].endswith("blue mug") and observations[0].endswith("red lamp")
    assert observations[1] == before[1] and not (terminations | truncations).any()
    _, rewards, *_ = vec.step(["buy"], rows=np.array([2]))
    assert rewards.tolist() == [0.0, 0.0, 10.0, 0.0]
    _, rewards, _, _, info = vec.step(["buy", "buy"], rows=[2, 0])
    assert info["active"].tolist() == [True, False, False, False] and not rewards.any()
    assert not vec.step([], rows=[])[4]["active"].any()


@pytest.mark.parametrize(
    ("actions", "rows", "error", "text"),
    [
        (["a"] * 3, None, ValueError, "Expected 4 actions, got 3"),
        (["a"], [0, 1], ValueError, "Expected 2 actions, one per entry of rows, got 1"),
        (["a", "b"], [1, 1], ValueError, "got 1 twice"),
        (["a"], [4], ValueError, r"rows must be in \[0, 4\), got 4"),
        (["a"], [-1], ValueError, r"rows must be in \[0, 4\), got -1"),
        (["a"], [True], TypeError, "flatnonzero"),
        (["a"], [1.0], TypeError, "row numbers, got 1.0"),
        (["a", "b", None, "d"], None, TypeError, "action of row 2 must be a str, got NoneType"),
        (["a", 5], [3, 1], TypeError, "action of row 1 must be a str, got int: 5"),
        ("abcd", None, TypeError, "sequence of str"),
        ({"a", "b", "c", "d"}, None, TypeError, "sequence of str, one per row, got the set"),
        (None, None, TypeError, "got the NoneType None"),
        (["a", "b"], {0, 1}, TypeError, "rows must be a sequence of row numbers"),
        (["a"], 1, TypeError, "rows must be a sequence of row numbers or None, got 1"),
    ],
)
def test_wrong_actions_raise_before_anything_moves(actions, rows, error, text):
    vec = batch(4, 2)
    vec.reset(seed=0)
    with pytest.raises(error, match=text):
        vec.step(actions, rows=rows)
    _, _, _, _, info = vec.step(["back"] * 4)
    assert info["turn"].tolist() == [1] * 4


@pytest.mark.parametrize(
    ("seed", "options", "error", "text"),
    [
        (0, {"task_indx": 1}, ValueError, "Did you mean 'task_index'"),
        (0, {"reset_mask": np.ones(4, bool)}, ValueError, "Unknown reset option 'reset_mask'"),
        (0, {"split": "dev"}, ValueError, r"Unknown split 'dev' for ToyShopEnv. Splits: train, test \(valid is test\)"),
        (0, {"task_index": 5}, ValueError, r"task_index must be in \[0, 5\) for ToyShopEnv split 'train', got 5"),
        (0, {"task_index": -2}, ValueError, "got -2"),
        (0, {"task_index": [0, 1, 2]}, ValueError, "expected 2, got 3"),
        (0, {"task_index": [0, 1.5]}, TypeError, "got 1.5 in it"),
        (0, {"task_index": True}, TypeError, "got True"),
        ([1, 2, 3], None, ValueError, "expected 2, got 3"),
        ("12", None, TypeError, "one int per group"),
        (np.array(3), None, TypeError, "one int per group"),
        (0, [1], TypeError, "options must be a dict"),
        (-1, None, ValueError, "seed must be >= 0, got -1"),
        ([1, -5], None, ValueError, "seed must be >= 0, got -5"),
    ],
)
def test_wrong_reset_arguments_raise_and_the_episode_goes_on(seed, options, error, text):
    vec = batch(4, 2)
    vec.reset(seed=0)
    with pytest.raises(error, match=text):
        vec.reset(seed=seed, options=options)
    assert vec.step(["back"] * 4)[4]["turn"].tolist() == [1] * 4


@pytest.mark.parametrize(("num_envs", "group_size"), [(10, 8), (0, 1), (4, 0), (-8, 8)])
def test_uneven_batch_is_refused_with_an_example(num_envs, group_size):
    with pytest.raises(ValueError, match="num_envs=128, group_size=8"):
        batch(num_envs, group_size)


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"executor": "thread"}, ValueError, "Did you mean 'threads'"),
        ({"executor": "threads", "num_workers": 0}, ValueError, "num_workers must be an int >= 1"),
        ({"executor": "threads", "num_workers": 2.0}, ValueError, "num_workers must be an int >= 1 or None, got 2.0"),
        ({"num_workers": float("nan")}, ValueError, "num_workers must be an int >= 1 or None, got nan"),
        ({"step_timeout_s": "3"}, TypeError, "step_timeout_s must be a number of seconds or None, got '3'"),
        ({"step_timeout_s": 0}, ValueError, "step_timeout_s must be > 0"),
        ({"reset_timeout_s": -1.0}, ValueError, "reset_timeout_s must be > 0"),
        ({"num_envs": 4.0}, TypeError, "num_envs must be an int, got 4.0"),
        ({"factory": not_an_agent_env}, TypeError, "must build an AgentEnv"),
    ],
)
def test_wrong_constructor_arguments(kwargs, error, text):
    with pytest.raises(error, match=text):
        batch(**kwargs)


def test_step_before_reset_and_after_close():
    vec = batch()
    with pytest.raises(gym.error.ResetNeeded):
        vec.step([""] * 4)
    assert vec.row_observations == () and not any(flags.any() for flags in vec.flags)
    vec.close()
    vec.close()
    with pytest.raises(gym.error.ClosedEnvironmentError):
        vec.reset()
    with pytest.raises(gym.error.ClosedEnvironmentError):
        _ = vec.envs  # would build new ones


def test_info_keeps_one_type_per_key_from_call_to_call():
    vec = batch(4, 2)
    _, first = vec.reset(seed=0)
    _, _, _, _, second = vec.step(["open 1", "fault nan", "buy", "draw"])
    kinds = {
        "state_key": object, "task_id": object, "task": object, "turn": np.int64, "success": np.bool_,
        "score": np.float64, "infra_error": object, "luck": np.float64, "admissible_actions": object,
    }  # fmt: skip
    for info in (first, second):
        for key, kind in kinds.items():
            assert info[key].dtype == kind and info[key].shape == info[f"_{key}"].shape == (4,)
    assert second["action_is_valid"].dtype == np.bool_ and second["refusal"].dtype == object
    assert second["admissible_actions"][0] == ["buy", "back"]
    assert second["_admissible_actions"].tolist() == [True, False, True, True]
    assert {type(key) for key in first["state_key"]} == {str}


def test_info_key_that_turns_from_int_to_float_is_refused_not_rounded():
    vec = batch(2, 2, MixedInfoEnv)
    vec.reset(seed=0)
    with pytest.raises(TypeError, match=r"info\['progress'\] of MixedInfoEnv is of type int, got 0.5 in row 1"):
        vec.step(["back", "open 1"])


def test_results_are_new_objects():
    vec = batch(2, 2, ToyGridEnv)
    observations, info = vec.reset(seed=0)
    kept = observations["image"].copy(), info["turn"].copy()
    first = vec.step(["down", "right"])
    flags = first[2].copy()
    vec.step(["down", "right"])
    assert (observations["image"] == kept[0]).all() and (info["turn"] == kept[1]).all()
    assert (first[2] == flags).all()
    first[3][:] = True
    assert not vec.step(["", ""])[3].any()


def test_members_that_start_in_different_states_are_reported():
    vec = batch(4, 2, UnseededEnv)
    text = r"group 0 start in different states \(task unseeded/train/3\): 2 keys for 2 members"
    with pytest.raises(GroupMismatchError, match=text):
        vec.reset(seed=0, options={"task_index": 3})
    with pytest.raises(gym.error.ResetNeeded):
        vec.step([""] * 4)


def test_members_that_name_their_task_differently_are_reported():
    vec = batch(2, 2, OwnTaskTableEnv)
    with pytest.raises(GroupMismatchError, match=r"\(tasks owntasktable/train/3-\d+, owntasktable/train/3-\d+\)"):
        vec.reset(seed=0, options={"task_index": 3})


def test_global_generators_are_left_alone():
    before = random.getstate(), np.random.get_state()[1].tolist()
    vec = batch()
    vec.reset(seed=1)
    vec.step(["draw"] * 4)
    vec.reset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_episode_statistics_of_gymnasium(toys):
    vec = RecordEpisodeStatistics(gym.make_vec("toys/Shop-v0", num_envs=4, group_size=2))
    vec.reset(seed=0, options={"task_index": [1, 2]})
    vec.step(["open 1", "draw", "open 2", "open 2"])
    _, _, terminations, truncations, info = vec.step(["buy", "open 1", "buy", "back"])
    ended = info["active"] & (terminations | truncations)
    assert ended.tolist() == [True, False, True, False]
    assert info["episode"]["r"][ended].tolist() == [10.0, 10.0] and info["episode"]["l"][ended].tolist() == [2, 2]


def test_info_as_a_list_of_dicts(toys):
    vec = DictInfoToList(gym.make_vec("toys/Shop-v0", num_envs=4, group_size=2))
    _, infos = vec.reset(seed=0, options={"task_index": [1, 2]})
    assert [info["task_id"] for info in infos] == ["toyshop/train/1"] * 2 + ["toyshop/train/2"] * 2


def test_make_vec_without_warning_and_texts_with_the_id(toys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vec = gym.make_vec("toys/Shop-v0", num_envs=128, group_size=8)
    assert (vec.num_groups, vec.spec.kwargs["group_size"], vec.num_envs) == (16, 8, 128)
    with pytest.raises(ValueError, match=r"task_index must be in \[0, 5\) for toys/Shop-v0 split 'train', got 500"):
        vec.reset(options={"task_index": 500})
    vec.close()


def test_oracle_of_each_row_through_envs():
    vec = batch(4, 2)
    vec.reset(seed=0)
    walks = [env.unwrapped.example_actions() for env in vec.envs]
    for turn in range(2):
        _, rewards, terminations, _, info = vec.step([walk[turn] for walk in walks])
    assert terminations.all() and info["success"].all() and rewards.tolist() == [10.0] * 4
