"""Panels report per task type, where the environment tells it."""

import gymnasium as gym
import pytest

from agent_envs import Panel
from agent_envs.panels import evaluate

KWARGS = {"size": "small"}


@pytest.fixture(scope="module")
def result():
    """The oracle plays every task but those of one type, which it refuses to start."""
    env_id = "agent_envs/ALFWorld-v0"
    panel = Panel.sample(
        gym.make(env_id, **KWARGS).unwrapped, env_id=env_id, split="valid_unseen", size=12, env_kwargs=KWARGS
    )
    vector = gym.make_vec(env_id, num_envs=5, group_size=1, max_turns=15, **KWARGS)

    def policy(observations, infos, rows):
        envs = vector.unwrapped.envs
        lazy = [infos["task_type"][row] == "look_at_obj_in_light" for row in rows]
        return ["" if idle else envs[row].example_actions()[0] for row, idle in zip(rows, lazy, strict=True)]

    yield evaluate(policy, panel, vector)
    vector.close()


def test_types_split_the_tasks(result):
    types = result.by_type()
    assert len(types) > 1 and sum(len(part.tasks) for part in types.values()) == len(result.tasks)
    for name, part in types.items():
        assert part.success_rate == (0.0 if name == "look_at_obj_in_light" else 1.0)


def test_summary_and_json_name_the_types(result):
    for name in result.by_type():
        assert f"  {name} (" in result.summary()
        assert result.to_dict()["by_type"][name]["tasks"] >= 1
