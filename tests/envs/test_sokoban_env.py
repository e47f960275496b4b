"""Sokoban through the environment's interface."""

import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.envs.sokoban import SokobanEnv
from agent_envs.envs.sokoban.env import IMAGE_SENTENCE, parse_word
from agent_envs.envs.sokoban.rules import WORDS

ENV_ID = "agent_envs/Sokoban-v0"


def custom(tmp_path: Path, *rows: str, **kwargs) -> SokobanEnv:
    """An environment that stands at the start of one given level."""
    (tmp_path / "train.txt").write_text("\n".join(rows) + "\n")
    env = SokobanEnv(level_dir=str(tmp_path), **kwargs)
    env.reset(seed=0)
    return env


# ------------------------------------------------------------------ parser


@pytest.mark.parametrize(
    "text, strict, lenient",
    [
        ("right", "right", "right"),
        ("  Right \n", "right", "right"),
        ("UP", "up", "up"),
        ('"down"', "down", "down"),
        ("'left'.", "left", "left"),
        ("`left.`", "left", "left"),
        ("“up”", "up", "up"),
        ("go right", "unknown_action", "right"),
        ("right, right!", "unknown_action", "right"),
        ("right..", "unknown_action", "right"),
        ("go right, not up", "ambiguous", "ambiguous"),
        ("Left then down", "ambiguous", "ambiguous"),
        ("up-right", "ambiguous", "ambiguous"),
        ("upright", "unknown_action", "unknown_action"),
        ("update", "unknown_action", "unknown_action"),
        ("up_down", "unknown_action", "unknown_action"),
        ("rightdown", "unknown_action", "unknown_action"),
        ("one two three four five", "unknown_action", "unknown_action"),
        ("向上", "unknown_action", "unknown_action"),
        ("ｕｐ", "unknown_action", "unknown_action"),
        ("", "unknown_action", "unknown_action"),
        (".", "unknown_action", "unknown_action"),
        ("1", "unknown_action", "unknown_action"),
        ("still", "unknown_action", "unknown_action"),
    ],
)
def test_parser_table(text, strict, lenient):
    for expected, flag in ((strict, False), (lenient, True)):
        word, code = parse_word(text, WORDS, lenient=flag)
        assert (word or code) == expected
        assert bool(word) != bool(code)


def test_lenient_through_the_environment():
    env = SokobanEnv(lenient=True)
    env.reset(seed=0)
    assert env.step("I go up now")[4]["action_is_valid"]
    assert env.step("up or down")[4]["refusal"] == "ambiguous"


@pytest.mark.parametrize("action", [None, 1, b"up", ["up"]])
def test_an_action_that_is_no_text_is_a_type_error(action):
    env = SokobanEnv()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="must be a str"):
        env.step(action)


# ------------------------------------------------------------------ rewards and ends


def test_reward_sums_and_end(tmp_path):
    env = custom(tmp_path, "######", "#@$. #", "# $. #", "######")
    _, reward, terminated, _, info = env.step("right")
    assert (reward, terminated, info["score"], info["boxes_on_target"]) == (pytest.approx(0.9), False, 0.5, 1)
    for word, expected in (("right", -1.1), ("left", -0.1), ("left", -0.1), ("down", -0.1)):
        assert env.step(word)[1] == pytest.approx(expected)
    _, reward, terminated, _, info = env.step("right")
    assert (reward, terminated, info["success"]) == (pytest.approx(0.9), False, False)


def test_the_last_push_gives_10_9_and_ends(tmp_path):
    env = custom(tmp_path, "#####", "#@$.#", "#####", max_turns=1)
    observation, reward, terminated, truncated, info = env.step("right")
    assert (reward, terminated, truncated) == (pytest.approx(10.9), True, False)  # solved wins over the limit
    assert (info["success"], info["score"], info["turn"]) == (True, 1.0, 1)
    key = info["state_key"]
    again, reward, terminated, truncated, info = env.step("left")
    assert (again, reward, terminated, truncated) == (observation, 0.0, True, False)
    assert (info["state_key"], info["success"], info["turn"]) == (key, True, 1)
    assert not info["action_is_valid"]


def test_success_mode(tmp_path):
    env = custom(tmp_path, "######", "#@ $.#", "######", reward_mode="success")
    assert env.step("nonsense")[1] == 0.0
    assert env.step("right")[1] == 0.0
    assert env.step("right")[1] == 10.0


def test_blocked_moves_are_valid_and_keep_the_key(tmp_path):
    env = custom(tmp_path, "#####", "#@$.#", "#   #", "#####")
    key = env.state_key()
    _, reward, _, _, info = env.step("up")
    assert (info["action_is_valid"], info["moved"], reward, info["state_key"]) == (True, False, -0.1, key)
    assert env.step("down")[4]["moved"]


def test_still_moves_nothing():
    env = SokobanEnv(allow_still=True)
    _, info = env.reset(seed=0)
    assert info["admissible_actions"] == ["up", "down", "left", "right", "still"]
    _, reward, _, _, after = env.step("Still.")
    assert (after["action_is_valid"], after["moved"], after["turn"], reward) == (True, False, 1, -0.1)
    assert after["state_key"] == info["state_key"]


def test_only_unknown_words_are_truncated_at_the_limit():
    env = SokobanEnv()
    first, start = env.reset(seed=0)
    for turn in range(1, 16):
        observation, reward, terminated, truncated, info = env.step("jump")
        assert (reward, terminated, truncated) == (-0.1, False, turn == 15)
        assert (info["action_is_valid"], info["refusal"], info["turn"]) == (False, "unknown_action", turn)
        assert (info["state_key"], observation, info["moved"]) == (start["state_key"], first, False)
    assert not info["success"]


def test_example_actions_win_from_the_start_and_from_the_middle():
    env = SokobanEnv(split="test")
    for index in range(5):
        env.reset(options={"task_index": index})
        env.step(env.example_actions()[0])
        env.step("up")
        for action in env.example_actions():
            assert action in WORDS
            _, reward, terminated, _, info = env.step(action)
        assert terminated and info["success"] and info["score"] == 1.0 and reward == pytest.approx(10.9)
        assert env.example_actions() == []


def test_example_actions_of_a_dead_board(tmp_path):
    env = custom(tmp_path, "#####", "#@$ #", "# . #", "#####")
    env.step("right")  # into the corner
    assert env.example_actions() == []


# ------------------------------------------------------------------ interface


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"grid_style": "compact", "allow_still": True, "reward_mode": "success"},
        {"obs_mode": "image", "tile": 5, "dim_room": [6, 8]},
        {"obs_mode": "image_text", "num_boxes": 2, "dim_room": [7, 7], "search_depth": 30},
    ],
)
def test_check_env(kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(ENV_ID, **kwargs)
        check_env(env.unwrapped)
    assert gym.envs.registration.EnvSpec.from_json(env.spec.to_json()).kwargs == env.spec.kwargs


@pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
def test_render(mode):
    env = gym.make(ENV_ID, render_mode=mode, grid_style="compact")
    observation, _ = env.reset(seed=0)
    if mode == "ansi":
        assert env.render() == observation
    else:
        assert env.render().shape == (96, 96, 3)
    with pytest.raises(ResetNeeded):
        SokobanEnv(render_mode=mode).render()


def test_observation_modes_show_one_board():
    text, image, both = (SokobanEnv(obs_mode=mode) for mode in ("text", "image", "image_text"))
    observations = [env.reset(seed=4) for env in (text, image, both)]
    for action in (None, "up", "left", "left", "jump", "down"):
        if action is not None:
            observations = [(step[0], step[4]) for step in (env.step(action) for env in (text, image, both))]
        grid, frame, pair = (observation for observation, _ in observations)
        assert frame["text"] == IMAGE_SENTENCE and pair["text"] == grid
        assert np.array_equal(frame["image"], pair["image"])
        assert frame["image"].shape == (96, 96, 3) and frame["image"].dtype == np.uint8
        assert len({info["state_key"] for _, info in observations}) == 1  # never the pixels
        for env, (observation, _) in zip((text, image, both), observations, strict=True):
            assert observation in env.observation_space


def test_a_returned_frame_can_be_edited():
    env = SokobanEnv(obs_mode="image")
    observation, _ = env.reset(seed=0)
    kept = observation["image"].copy()
    observation["image"][:] = 0
    assert np.array_equal(env.step("jump")[0]["image"], kept)


def test_every_symbol_lies_in_the_space(tmp_path):
    env = custom(tmp_path, "######", "#+$* #", "######", "######")
    observation = env.step("jump")[0]
    assert "√" in observation and "S" in observation and observation in env.observation_space
    assert len(observation) == env.observation_space.max_length  # the bound is exact


def test_info_and_board_arrays(tmp_path):
    env = custom(tmp_path, "######", "#+$* #", "######")
    _, info = env.reset()
    assert type(info["moved"]) is bool and type(info["boxes_on_target"]) is int and type(info["score"]) is float
    assert info["admissible_actions"] == list(WORDS)
    assert info["task"] and all(word in info["task"] for word in WORDS)
    assert env.canonical_state() == {"room": ["000000", "064310", "000000"]}
    assert env.room_state.tolist()[1] == [0, 5, 4, 3, 1, 0]
    assert env.room_fixed.tolist()[1] == [0, 2, 1, 2, 1, 0]
    assert env.room_state.dtype == env.room_fixed.dtype == np.int8
    env.room_state[:] = 0
    assert env.room_state.any()


@pytest.mark.parametrize(
    "kwargs, text",
    [
        ({"obs_mode": "picture"}, "Unknown obs_mode 'picture'"),
        ({"obs_mode": "images"}, "Did you mean 'image'"),
        ({"grid_style": "wide"}, "Unknown grid_style"),
        ({"reward_mode": "sparse"}, "Unknown reward_mode"),
        ({"tile": 3}, r"tile must be an int in \[4, 64\]"),
        ({"tile": 65}, "tile must be"),
        ({"tile": 16.0}, "tile must be"),
        ({"render_mode": "human"}, "Unknown render_mode"),
    ],
)
def test_bad_arguments(kwargs, text):
    with pytest.raises(ValueError, match=text):
        SokobanEnv(**kwargs)


# ------------------------------------------------------------------ tasks


def test_splits_and_task_ids():
    env = SokobanEnv(search_depth=30)
    assert env.num_tasks("train") == 1_000_000 and env.num_tasks("test") == env.num_tasks("validation") == 256
    assert env.reset(options={"task_index": 12})[1]["task_id"] == "sokoban/train/6x6-b1-d30-12"
    for split in ("test", "validation"):
        _, info = env.reset(options={"split": split, "task_index": 255})
        assert info["task_id"] == "sokoban/test/6x6-b1-d30-1000255"
    limited = SokobanEnv(require_solvable_within=15)
    assert limited.reset(options={"task_index": 1})[1]["task_id"] == "sokoban/train/6x6-b1-d300-1-w15"


def test_fingerprint_covers_the_parameters():
    variants = [
        SokobanEnv(),
        SokobanEnv(search_depth=30),
        SokobanEnv(num_boxes=2),
        SokobanEnv(dim_room=[6, 7]),
        SokobanEnv(require_solvable_within=15),
    ]
    prints = [env.fingerprint(split) for env in variants for split in ("train", "test")]
    assert len(set(prints)) == 10
    assert SokobanEnv(obs_mode="image").fingerprint() == prints[0]  # the view is not the task


def test_fingerprint_covers_the_generator_version(monkeypatch):
    before = SokobanEnv().fingerprint()
    monkeypatch.setattr("agent_envs.envs.sokoban.env.GENERATOR_VERSION", 999)
    assert SokobanEnv().fingerprint() != before
