"""register_env, the entry points, and the errors of wrong names."""

import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.errors import did_you_mean, missing_extra, unknown_name
from agent_envs.groups import GroupEnv, GroupVectorEnv
from agent_envs.registration import EnvFactory

pytestmark = pytest.mark.usefixtures("toys")


def test_registering_twice_is_harmless_and_the_first_stays():
    agent_envs.register_env("toys/Shop-v0", "nowhere:Nothing", max_turns=1)
    assert gym.make("toys/Shop-v0").unwrapped.max_turns == 15
    assert {"toys/Shop-v0", "toys/Grid-v0"} <= set(agent_envs.registered_ids())


def test_specs_hold_json_only():
    for env_id in agent_envs.registered_ids():
        assert json.loads(gym.spec(env_id).to_json())["kwargs"]["max_turns"] >= 1
        assert gym.spec(env_id).max_episode_steps is None  # the environment owns its limit


def test_three_ways_to_make():
    assert isinstance(gym.make("toys/Shop-v0").unwrapped, agent_envs.AgentEnv)
    assert isinstance(gym.make("toys/Shop-v0", group_size=2).unwrapped, GroupEnv)
    assert isinstance(gym.make_vec("toys/Shop-v0", num_envs=2, group_size=1), GroupVectorEnv)


def test_keyword_arguments_reach_the_members():
    vec = gym.make_vec("toys/Shop-v0", num_envs=2, group_size=2, max_turns=1, split="test")
    _, info = vec.reset(seed=0)
    assert info["task_id"][0].startswith("toyshop/test/") and vec.step(["x", "x"])[3].all()


@pytest.mark.parametrize("group_size", [1, 2])
def test_unknown_keyword_names_the_id(group_size):
    with pytest.raises(TypeError, match="colour.*toys/Shop-v0"):
        gym.make("toys/Shop-v0", group_size=group_size, colour="red")


def test_memory_arguments_need_a_memory():
    with pytest.raises(ValueError, match="needs memory="):
        gym.make("toys/Shop-v0", memory_kwargs={"history_length": 2})


def test_factory_builds_the_class_by_its_path():
    env = EnvFactory(env_class="toy_envs:ToyShopEnv", kwargs={"max_turns": 4})()
    assert env.unwrapped.max_turns == 4


def test_error_texts():
    assert did_you_mean("tread", ["threads"]) == " Did you mean 'threads'?" and did_you_mean("x", ["threads"]) == ""
    assert str(unknown_name("executor", "thread", ["threads", "serial"])) == (
        "Unknown executor 'thread'. Did you mean 'threads'? Known: serial, threads."
    )
    assert 'run pip install "agent-envs[webshop]"' in str(missing_extra("flask", "webshop"))
