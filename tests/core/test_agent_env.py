"""AgentEnv: seeds, tasks, turn limit, finished episodes, info, arguments."""

import random

import gymnasium as gym
import numpy as np
import pytest
from toy_envs import ToyGridEnv, ToyShopEnv

from agent_envs import AgentEnv, FreeText


@pytest.fixture
def env():
    return ToyShopEnv()


def test_seed_decides_task_and_randomness(env):
    one, two = env.reset(seed=3), ToyShopEnv().reset(seed=3)
    assert one == two
    assert len({ToyShopEnv().reset(seed=seed)[1]["task_id"] for seed in range(30)}) == 5
    assert len({ToyShopEnv().reset(seed=seed)[1]["luck"] for seed in range(30)}) == 30


def test_reset_without_seed_goes_on_with_the_generator(env):
    env.reset(seed=3)
    first = [env.reset()[1]["luck"] for _ in range(3)]
    env.reset(seed=3)
    assert [env.reset()[1]["luck"] for _ in range(3)] == first and len(set(first)) == 3


def test_task_index_and_split(env):
    _, info = env.reset(options={"task_index": 4})
    assert (info["task_id"], info["task"]) == ("toyshop/train/4", "buy green pot")
    assert env.reset(options={"split": "valid", "task_index": np.int64(2)})[1]["task_id"] == "toyshop/test/2"
    assert ToyShopEnv(split="valid").reset(options={"task_index": 1})[1]["task_id"] == "toyshop/test/1"
    assert (env.num_tasks(), env.num_tasks("valid")) == (5, 3)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"task_index": 5}, ValueError, r"task_index must be in \[0, 5\) for ToyShopEnv split 'train', got 5"),
        ({"task_index": -1}, ValueError, "got -1"),
        ({"task_index": "1"}, TypeError, "task_index must be an int, got '1'"),
        ({"task_index": True}, TypeError, "got True"),
        ({"split": "dev"}, ValueError, r"Unknown split 'dev' for ToyShopEnv. Splits: train, test \(valid is test\)"),
        ({"spilt": "test"}, ValueError, "Unknown reset option 'spilt'. Did you mean 'split'"),
        (["split"], TypeError, r"options must be a dict .* got \['split'\]"),
    ],
)
def test_wrong_options(env, options, error, text):
    with pytest.raises(error, match=text):
        env.reset(options=options)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"max_turns": 0}, "max_turns must be an int >= 1, got 0"),
        ({"max_turns": 2.5}, "got 2.5"),
        ({"max_turns": True}, "got True"),
        ({"split": "dev"}, "Unknown split 'dev'"),
        ({"state_key": "canonicle"}, "Unknown state_key 'canonicle'. Did you mean 'canonical'"),
        ({"render_mode": "human"}, "Unknown render_mode 'human' for ToyShopEnv. Known: none"),
    ],
)
def test_wrong_arguments(kwargs, text):
    with pytest.raises(ValueError, match=text):
        ToyShopEnv(**kwargs)


ALWAYS = {"state_key", "task_id", "task", "turn", "success", "score", "infra_error", "admissible_actions", "luck"}


def test_info_has_the_documented_keys_and_types(env):
    _, info = env.reset(seed=0)
    assert set(info) == ALWAYS
    *_, info = env.step("nonsense")
    assert set(info) == ALWAYS | {"action_is_valid", "refusal"}
    kinds = {"state_key": str, "turn": int, "success": bool, "score": float, "action_is_valid": bool, "refusal": str}
    for key, kind in kinds.items():
        assert type(info[key]) is kind


def test_refused_action_uses_a_turn_and_keeps_the_key(env):
    _, start = env.reset(seed=0)
    *_, info = env.step("nonsense")
    assert (info["turn"], info["action_is_valid"], info["refusal"]) == (1, False, "unknown_action")
    assert info["state_key"] == start["state_key"]
    *_, info = env.step("open 1")
    assert (info["action_is_valid"], info["refusal"]) == (True, "")


def test_turn_limit_truncates_and_terminated_wins():
    env = ToyShopEnv(max_turns=2)
    env.reset(options={"task_index": 0})
    assert env.step("open 0")[2:4] == (False, False)
    assert env.step("back")[2:4] == (False, True)
    env.reset(options={"task_index": 0})
    env.step("open 0")
    assert env.step("buy")[1:4] == (10.0, True, False)


def test_step_after_the_end_changes_nothing(env):
    env.reset(options={"task_index": 0})
    env.step("open 0")
    observation, _, _, _, info = env.step("buy")
    again = env.step("open 1")
    assert again[:4] == (observation, 0.0, True, False)
    assert again[4]["state_key"] == info["state_key"] and again[4]["turn"] == 2
    assert (again[4]["action_is_valid"], again[4]["refusal"], again[4]["success"]) == (False, "episode_over", True)
    assert env.reset(options={"task_index": 0})[1]["success"] is False


def test_step_needs_a_reset_and_a_string(env):
    with pytest.raises(gym.error.ResetNeeded):
        env.step("buy")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="must be a str, got int: 3"):
        env.step(3)


def test_hook_may_truncate():
    class SixSymbols(ToyShopEnv):
        def _act(self, action):
            self.truncate()
            return 0.0, False, True

    env = SixSymbols()
    env.reset(seed=0)
    assert env.step("x")[2:4] == (False, True)


@pytest.mark.parametrize("hook", ["_reset_task", "_act", "_observe", "canonical_state", "example_actions"])
def test_subclass_that_lacks_a_hook_is_told(hook):
    """A forgotten canonical_state would give all states one key."""
    lacking = type("Lacking", (ToyShopEnv,), {hook: getattr(AgentEnv, hook)})
    with pytest.raises(TypeError, match=f"abstract class Lacking with abstract method {hook}"):
        lacking()


def test_global_generators_are_left_alone():
    random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    env = ToyGridEnv()
    env.reset(seed=1)
    for action in env.example_actions():
        env.step(action)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_fingerprint_names_the_tasks(env):
    assert env.fingerprint("valid") == env.fingerprint("test") != env.fingerprint("train")
    assert len(env.fingerprint()) == 16

    class MoreTasks(ToyShopEnv):
        SPLITS = {**ToyShopEnv.SPLITS, "train": 4}

        @classmethod
        def name(cls):
            return "toyshop"

    assert MoreTasks().fingerprint("train") != env.fingerprint("train")
    assert MoreTasks().fingerprint("test") == env.fingerprint("test")


def test_free_text_space():
    space = FreeText(10)
    assert "naïve \N{SNOWMAN}" in space and "" in space and "x" * 11 not in space and 5 not in space
    assert FreeText(10) == space != FreeText(11)
    space.seed(0)
    samples = [space.sample() for _ in range(50)]
    space.seed(0)
    assert samples == [space.sample() for _ in range(50)] and all(sample in space for sample in samples)
    assert space.from_jsonable(space.to_jsonable(samples)) == samples
    assert FreeText(0).sample() == "" and repr(space) == "FreeText(max_length=10)"
    assert max(len(FreeText(4096).sample()) for _ in range(100)) <= 32
    with pytest.raises(ValueError, match="max_length must be >= 0, got -1"):
        FreeText(-1)


def test_failed_reset_leaves_no_episode_to_step():
    """Otherwise steps would play the old game under the new task's id."""
    env = ToyShopEnv(fail_resets=(4,))
    env.reset(options={"task_index": 1})
    with pytest.raises(RuntimeError, match="no shop 4"):
        env.reset(options={"task_index": 4})
    for call in (lambda: env.step("draw"), env.state_key):
        with pytest.raises(gym.error.ResetNeeded):
            call()
    assert env.reset(options={"task_index": 1})[1]["task_id"] == "toyshop/train/1"


class WinsAtItsLimitEnv(ToyShopEnv):
    def _act(self, action):
        self.truncate()
        return 10.0, action == "win", True


@pytest.mark.parametrize(("action", "flags"), [("win", (True, False)), ("wait", (False, True))])
def test_outcome_counts_for_more_than_a_limit_in_the_same_turn(action, flags):
    env = WinsAtItsLimitEnv()
    env.reset(seed=0)
    assert env.step(action)[2:4] == flags
