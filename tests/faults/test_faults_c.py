"""C: rewards, ends, finished environments. One test per known fault of such systems, its id in the name."""

import gymnasium as gym
import pytest
from toy_envs import ToyShopEnv, shop

from agent_envs.groups import GroupVectorEnv


def test_c4_the_right_answer_after_the_end_pays_nothing():
    env = ToyShopEnv(max_turns=2)
    env.reset(options={"task_index": 1})
    env.step("open 1")
    env.step("draw")
    key = env.state_key()
    _, reward, terminated, truncated, info = env.step("buy")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert env.state_key() == key == info["state_key"]


@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_c4_in_a_batch(executor):
    vec = GroupVectorEnv(lambda: shop(max_turns=2), num_envs=2, group_size=2, executor=executor)
    vec.reset(options={"task_index": 1})
    vec.step(["open 1", "open 1"])
    vec.step(["back", "buy"])
    _, rewards, terminations, truncations, info = vec.step(["buy", "buy"])
    assert rewards.tolist() == [0.0, 0.0] and not info["active"].any()
    assert terminations.tolist() == [False, True] and truncations.tolist() == [True, False]
    vec.close()


def test_c7_member_that_ended_is_not_stepped():
    calls = []

    class Spy(ToyShopEnv):
        def step(self, action):
            calls.append(action)
            return super().step(action)

    vec = GroupVectorEnv(Spy, num_envs=3, group_size=3)
    vec.reset(options={"task_index": 1})
    vec.step(["open 1"] * 3)
    vec.step(["buy", "back", "draw"])
    calls.clear()
    _, _, terminations, truncations, info = vec.step(["first", "second", "third"])
    assert calls == ["second", "third"] and info["active"].tolist() == [False, True, True]


def test_c7_memory_of_a_member_that_ended_does_not_grow():
    vec = gym.make_vec("agent_envs/EZPoints-v0", num_envs=2, group_size=2, obs_mode="text", memory="window")
    vec.reset(seed=0)
    (first, second) = (env.unwrapped for env in vec.envs)
    winning = first.example_actions()
    for turn, action in enumerate(winning):
        observations, *_ = vec.step([action, f"nonsense {turn}"])
    assert first.success and not second.success
    ended = observations[0]
    for turn in range(2):
        observations, _, _, _, info = vec.step([f"late {turn}", f"nonsense late {turn}"])
        assert observations[0] == ended and "late" not in observations[0]
        assert f"nonsense late {turn}" in observations[1]
        assert info["active"].tolist() == [False, True]
    vec.close()
