"""GroupEnv: the joint environment of one group."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers import RecordEpisodeStatistics
from toy_envs import shop

from agent_envs.groups import GroupEnv, GroupVectorEnv

pytestmark = pytest.mark.usefixtures("toys")
IDS = ["toys/Shop-v0", "toys/Grid-v0"]


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("group_size", [1, 2, 8])
def test_check_env_without_a_warning(env_id, group_size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(env_id, group_size=group_size)
        # Rendering is tried with a render_mode only; test_all covers it.
        check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=0)
        for _ in range(3):
            env.step(env.action_space.sample())
        env.close()


@pytest.mark.parametrize("env_id", IDS)
def test_joint_env_is_group_zero_of_the_vector_env(env_id):
    joint = gym.make(env_id, group_size=3)
    vec = gym.make_vec(env_id, num_envs=6, group_size=3)
    for seed, options in ((5, None), (None, {"task_index": 2}), (7, {"split": "test"})):
        joint_obs, joint_info = joint.reset(seed=seed, options=options)
        vec_obs, vec_info = vec.reset(seed=seed, options=options)
        if seed is not None:
            assert joint_info["task_id"].tolist() == vec_info["task_id"][:3].tolist()
        assert joint_info["state_key"].tolist() == vec_info["state_key"][:3].tolist()
        for actions in (("open 2", "down", "x"), ("buy", "right", "draw"), ("x", "down", "open 1")):
            joint_obs, _, _, _, joint_info = joint.step(actions)
            vec_obs, rewards, terminations, truncations, vec_info = vec.step(actions * 2)
            rows = [
                {k: v[i] for k, v in vec_obs.items()} if isinstance(vec_obs, dict) else vec_obs[i] for i in range(3)
            ]
            assert data_equivalence(joint_obs, tuple(rows))
            for name, values in (("rewards", rewards), ("terminations", terminations), ("truncations", truncations)):
                assert joint_info[name].tolist() == values[:3].tolist()
            assert joint_info["active"].tolist() == vec_info["active"][:3].tolist()
            assert joint_info["state_key"].tolist() == vec_info["state_key"][:3].tolist()


def test_reward_is_the_mean_and_flags_wait_for_all():
    env = gym.make("toys/Shop-v0", group_size=4, max_turns=3)
    env.reset(seed=0, options={"task_index": 2})
    env.step(("open 2", "open 1", "open 2", "back"))
    _, reward, terminated, truncated, info = env.step(("buy", "buy", "back", "back"))
    assert (reward, terminated, truncated) == (2.5, False, False)
    assert info["rewards"].tolist() == [10.0, 0.0, 0.0, 0.0]
    _, reward, terminated, truncated, info = env.step(("x",) * 4)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["terminations"].tolist() == [True, True, False, False]
    assert info["truncations"].tolist() == [False, False, True, True]


def test_truncated_if_nobody_terminated():
    env = gym.make("toys/Shop-v0", group_size=2, max_turns=1)
    env.reset(seed=0)
    assert env.step(("x", "x"))[1:4] == (0.0, False, True)


def test_all_failed_members_end_the_joint_episode():
    env = GroupEnv(GroupVectorEnv(lambda: shop(fail_resets=[1]), num_envs=2, group_size=2))
    _, info = env.reset(options={"task_index": 1})
    assert not info["active"].any()
    assert env.step(("x", "x"))[1:4] == (0.0, False, True)


def test_observations_of_idle_members_are_new_objects():
    env = gym.make("toys/Grid-v0", group_size=2)
    env.reset(seed=0, options={"task_index": 0})
    env.step(("down", "up"))
    first, *_ = env.step(("right", "up"))
    second, _, _, _, info = env.step(("right", "up"))
    assert info["active"].tolist() == [False, True]
    first[0]["image"][:] = 7
    assert not np.shares_memory(first[0]["image"], second[0]["image"]) and second[0]["image"].max() == 255


def test_wrapper_of_gymnasium_records_the_episode():
    env = RecordEpisodeStatistics(gym.make("toys/Shop-v0", group_size=2))
    env.reset(seed=0, options={"task_index": 1})
    env.step(("open 1", "open 1"))
    _, _, terminated, _, info = env.step(("buy", "buy"))
    assert terminated and info["episode"]["r"] == 10.0 and info["episode"]["l"] == 2


def test_spec_survives_json():
    env = gym.make("toys/Shop-v0", group_size=4)
    again = gym.envs.registration.EnvSpec.from_json(env.spec.to_json()).make()
    assert again.unwrapped.group_size == 4


def test_needs_one_group():
    with pytest.raises(ValueError, match="one group, got a vector environment of 2"):
        GroupEnv(GroupVectorEnv(shop, num_envs=4, group_size=2))


def test_wrong_number_of_actions():
    env = gym.make("toys/Shop-v0", group_size=4, disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="Expected 4 actions, got 3"):
        env.step(("x",) * 3)
