"""E and F: life cycle, interfaces. One test per known fault of such systems, its id in the name."""

import inspect
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from toy_envs import ToyShopEnv, shop

import agent_envs
from agent_envs import keys
from agent_envs.batching import stack_observations
from agent_envs.groups import GroupVectorEnv


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_e10_executor_is_an_argument(executor):
    vec = gym.make_vec("toys/Shop-v0", num_envs=4, group_size=2, executor=executor, num_workers=2)
    assert vec.executor == executor
    vec.reset(seed=0)
    assert vec.step(["draw"] * 4)[1].all()
    vec.close()


def test_e10_default_number_of_workers_follows_the_cores(monkeypatch):
    from agent_envs import executor_processes, executors

    seen = {}
    monkeypatch.setattr(executors, "available_cores", lambda: 2)
    monkeypatch.setattr(executor_processes, "ProcessExecutor", lambda factory, **kwargs: seen.update(kwargs))
    for num_groups, num_workers in ((16, None), (1, None), (16, 5)):
        executors.make_executor(
            "processes",
            shop,
            num_groups=num_groups,
            group_size=8,
            num_workers=num_workers,
            reset_timeout_s=None,
            step_timeout_s=None,
        )
        assert seen["num_processes"] == {(16, None): 2, (1, None): 1, (16, 5): 5}[num_groups, num_workers]


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.25, 0.5]])
def test_e12_float_image_keeps_its_scale(values):
    space = spaces.Box(0.0, 1.0, (2,), np.float32)
    batch = stack_observations(space, [np.array(values, np.float32)] * 2)
    assert batch.dtype == np.float32 and (batch == np.array(values, np.float32)).all()


def test_e12_dark_uint8_image_is_not_a_float_image():
    space = spaces.Box(0, 255, (2,), np.uint8)
    batch = stack_observations(space, [np.array([0, 1], np.uint8)] * 2)
    assert batch.dtype == np.uint8 and batch.max() == 1
    dark, bright = np.array([0, 1], np.uint8), np.array([0.0, 1.0], np.float32)
    assert keys.observation_json(dark) != keys.observation_json(bright)


def test_f7_gym_is_imported_nowhere():
    gym.make("agent_envs/Sokoban-v0").close()
    assert "gym" not in sys.modules


def test_f8_reset_has_gymnasiums_signature():
    for cls in (agent_envs.AgentEnv, agent_envs.groups.GroupEnv, GroupVectorEnv):
        parameters = inspect.signature(cls.reset).parameters
        assert [name for name in parameters if name != "self"] == ["seed", "options"]
        assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("seed", "options"))
    ToyShopEnv().reset(seed=1, options={"task_index": 1})


@pytest.mark.parametrize("env_id", ["agent_envs/Sokoban-v0", "agent_envs/EZPoints-v0"])
@pytest.mark.parametrize("group_size", [1, 3])
def test_f8_check_env_passes_without_a_warning(env_id, group_size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(env_id, group_size=group_size)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()
