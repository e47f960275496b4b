"""MemoryObservation: what it shows, and that it changes nothing else."""

import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.core import AgentEnv
from agent_envs.errors import SnapshotError
from agent_envs.memory import MemoryObservation, MemoryView, WindowMemory, memory_names
from agent_envs.spaces import FreeText


class CorridorEnv(AgentEnv):
    """Walk right to the end."""

    SPLITS = {"train": 5, "test": "train"}
    SUPPORTS_SNAPSHOT = True

    def __init__(self, *, image=False, max_turns=6):
        super().__init__(max_turns=max_turns)
        self.image, self.action_space = image, FreeText(100)
        text = FreeText(20)
        frame = spaces.Box(0, 255, (2, 2, 3), np.uint8)
        self.observation_space = spaces.Dict({"image": frame, "text": text}) if image else text

    def _reset_task(self, split, index):
        self.cell, self.length = 0, 2 + index

    def _act(self, action):
        if action not in ("left", "right"):
            self.refusal = "unknown_action"
            return 0.0, False, False
        self.cell = max(0, self.cell + (1 if action == "right" else -1))
        self.success = self.cell == self.length
        return float(self.success), self.success, True

    def _observe(self):
        text = f"cell {self.cell}"
        return {"image": np.full((2, 2, 3), self.cell, np.uint8), "text": text} if self.image else text

    def canonical_state(self):
        return {"cell": self.cell}

    def example_actions(self):
        return ["right"] * (self.length - self.cell)

    def _save_state(self):
        return self.cell

    def _load_state(self, state):
        self.cell = state


class KeepsFrames(WindowMemory):
    def render(self, budget):
        return MemoryView(text="before <image>", images=(np.zeros((2, 2, 3), np.uint8),), num_turns=1)


ACTIONS = ["right", "jump <image>", "left", "right", "right", "right", "right"]


def roll(env, actions=ACTIONS, *, seed=3):
    """Return everything but the observations."""
    rows = [env.reset(seed=seed, options={"task_index": 1})[1:]]
    rows += [env.step(action)[1:] for action in actions]
    return rows


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("name", memory_names())
def test_keys_rewards_flags_and_info_stay(name, image):
    assert roll(MemoryObservation(CorridorEnv(image=image), name)) == roll(CorridorEnv(image=image))


@pytest.mark.parametrize("name", memory_names())
@pytest.mark.parametrize("env_id", ["agent_envs/Sokoban-v0", "agent_envs/EZPoints-v0"])
def test_shipped_environments_play_the_same_with_every_memory(env_id, name):
    with gym.make(env_id) as raw, gym.make(env_id, memory=name) as wrapped:
        raw.reset(seed=5)
        actions = [*raw.unwrapped.example_actions(), "no such action"]
        plain = roll(raw, actions)
        assert roll(wrapped, actions) == plain
        assert any(row[-1]["success"] for row in plain) or len(plain) > 2


def test_history_stands_before_the_current_observation():
    env = MemoryObservation(CorridorEnv(), "window")
    assert env.reset(seed=0)[0] == "cell 0"
    env.step("right")
    env.step("jump")
    assert env.step("right")[0] == (
        "[Observation 2: 'cell 1', Action 2: 'jump' (refused)]\n[Observation 3: 'cell 1', Action 3: 'right']\ncell 2"
    )
    assert env.reset(seed=0)[0] == "cell 0"


def test_result_continues_the_last_step():
    env = MemoryObservation(CorridorEnv(), "window", style="steps")
    env.reset(seed=0)
    assert env.step("right")[0] == "Step 1: right cell 1"


def test_image_stays_and_text_gets_the_history():
    env = MemoryObservation(CorridorEnv(image=True), "window")
    env.reset(seed=0, options={"task_index": 3})
    observation = env.step("right")[0]
    assert observation["image"].tolist() == np.full((2, 2, 3), 1).tolist()
    assert observation["text"] == "[Observation 1: '[image] cell 0', Action 1: 'right']\ncell 1"


def test_frames_that_a_memory_keeps_are_dropped_with_a_marker(monkeypatch):
    monkeypatch.setattr("agent_envs.memory.window.KeepsFrames", KeepsFrames, raising=False)
    env = MemoryObservation(CorridorEnv(image=True), "agent_envs.memory.window:KeepsFrames")
    assert env.reset(seed=0)[0]["text"] == "before [image]\ncell 0"


def test_steps_after_the_end_are_not_stored():
    env = MemoryObservation(CorridorEnv(), "window", history_length=None)
    env.reset(seed=0, options={"task_index": 0})
    env.step("right")
    at_end, *_ = env.step("right")
    assert env.step("left")[0] == at_end and env.step("right")[0] == at_end


def test_history_limit_holds_and_the_space_holds_everything():
    env = MemoryObservation(CorridorEnv(max_turns=50), "window", history_length=None, max_history_chars=120)
    assert env.observation_space == FreeText(20 + 120 + 1)
    env.reset(seed=0, options={"task_index": 4})
    for _ in range(30):
        observation, *_ = env.step("left")
        assert env.observation_space.contains(observation)
    assert 90 < len(observation) <= 120 + 1 + len("cell 0")
    assert MemoryObservation(CorridorEnv(), "window").observation_space.contains("x" * 100_000)


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("name", memory_names())
def test_check_env_without_a_warning(name, image):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*different from the unwrapped version.*")  # said of every wrapper
        check_env(MemoryObservation(CorridorEnv(image=image), name), skip_render_check=True)


def test_made_by_id_it_can_be_made_again_from_its_spec():
    with gym.make("agent_envs/Sokoban-v0", memory="window", memory_kwargs={"history_length": 1}) as env:
        spec = json.loads(env.spec.to_json())
        assert spec["kwargs"]["memory"] == "window"
        with gym.make(env.spec) as again:
            count = 0
            while again is not again.unwrapped:
                count += isinstance(again, MemoryObservation)
                again = again.env
        assert count == 1


def test_each_member_of_a_batch_has_its_own_memory():
    envs = gym.make_vec("agent_envs/Sokoban-v0", num_envs=4, group_size=2, memory="window")
    envs.reset(seed=0)
    observations, *_ = envs.step(["up", "down", "left", "right"])
    for text, action in zip(observations, ("up", "down", "left", "right"), strict=True):
        assert f"Action 1: '{action}'" in text and text.count("Action") == 1
    observations, _ = envs.reset(seed=1)
    assert not any("Action" in text for text in observations)
    envs.close()


# ------------------------------------------------------------------ snapshots


@pytest.mark.parametrize("name", memory_names())
def test_snapshot_continues_in_another_instance(name):
    env, other = (MemoryObservation(CorridorEnv(), name, max_history_chars=200) for _ in range(2))
    env.reset(seed=0, options={"task_index": 4})
    for action in ("right", "jump", "right"):
        observation, *_, info = env.step(action)
    restored, restored_info = other.restore(env.snapshot())
    assert restored == observation and restored_info["state_key"] == info["state_key"]
    for action in ("left", "right", "right", "right"):
        assert env.step(action) == other.step(action)


def test_snapshot_of_a_finished_episode_stays_finished():
    env, other = (MemoryObservation(CorridorEnv(), "window") for _ in range(2))
    env.reset(seed=0, options={"task_index": 0})
    env.step("right")
    env.step("right")
    other.restore(env.snapshot())
    assert env.step("left") == other.step("left")


def test_wrong_snapshots_are_refused_and_the_episode_goes_on():
    env = MemoryObservation(CorridorEnv(), "window")
    env.reset(seed=0, options={"task_index": 4})
    env.step("right")
    good = env.snapshot()
    data = json.loads(good)
    longer = MemoryObservation(CorridorEnv(), "window", history_length=None)
    longer.reset(seed=0)
    for _ in range(3):
        longer.step("left")
    other = MemoryObservation(CorridorEnv(), "summary")
    other.reset(seed=0)
    wrong = [
        b"", b"{}", b"[]", b"\xff", CorridorEnv.__doc__.encode(), longer.snapshot(), other.snapshot(), None,
        json.dumps({**data, "env": "!"}).encode(), json.dumps({**data, "env": "AAAA"}).encode(),
        json.dumps({**data, "format": 2}).encode(), json.dumps({**data, "memory_state": {}}).encode(),
    ]  # fmt: skip
    for snapshot in wrong:
        with pytest.raises(SnapshotError):
            env.restore(snapshot)
    assert env.snapshot() == good
    assert env.step("right")[0].endswith("Action 2: 'right']\ncell 2")


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "text"),
    [
        (("windw",), {}, ValueError, "Did you mean 'window'"),
        ((None,), {}, TypeError, "memory must be a name"),
        (("window",), {"max_history_chars": -1}, ValueError, "max_history_chars must be >= 0, got -1"),
        (("window",), {"max_history_chars": "many"}, TypeError, "max_history_chars must be an int or None"),
        (("window",), {"history_length": -3}, ValueError, "history_length must be >= 0, got -3"),
        (("window",), {"length": 3}, TypeError, "length"),
    ],
)
def test_wrong_arguments(args, kwargs, error, text):
    with pytest.raises(error, match=text):
        MemoryObservation(CorridorEnv(), *args, **kwargs)


def test_environment_without_text_is_refused():
    with pytest.raises(TypeError, match="needs text, or a Dict with 'text', as observation space, got Box"):
        MemoryObservation(gym.make("CartPole-v1"), "window")


def test_foreign_environment_with_a_text_space_works():
    class Echo(gym.Env):
        observation_space = spaces.Text(10)
        action_space = spaces.Text(10)

        def reset(self, *, seed=None, options=None):
            return "start", {}

        def step(self, action):
            return action, 0.0, False, False, {}

    env = MemoryObservation(Echo(), "window")
    env.reset()
    assert env.step("hi")[0] == "[Observation 1: 'start', Action 1: 'hi']\nhi"
