"""What every environment must keep, on the four games: spaces, seeds, keys, frames, snapshots, processes."""

import hashlib
import json
import os
import pickle
import random
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import agent_envs
from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env
from agent_envs.envs.cards.draw import (
    card_name,
)

_CLASSES = [EZPointsEnv, Points24Env, NumberLineEnv, BlackjackEnv]
_IDS = [f"agent_envs/{cls.__name__.removesuffix('Env')}-v0" for cls in _CLASSES]
_MODES = ["text", "image", "image_text"]
_classes = pytest.mark.parametrize("env_class", _CLASSES)


def _walk(env, rng, length=12):
    """Random symbols and some nonsense; every result, with frames as bytes."""
    results = []
    for _ in range(length):
        pool = [*env.unwrapped.vocabulary.symbols, "nonsense"]
        results.append(_plain(env.step(rng.choice(pool))))
    return results


def _plain(result):
    observation = result[0]
    if isinstance(observation, dict):
        observation = {"image": observation["image"].tobytes(), "text": observation["text"]}
    return (observation, *result[1:])


# ---------------------------------------------------------------------- Gymnasium


@pytest.mark.parametrize("obs_mode", _MODES)
@pytest.mark.parametrize("env_id", _IDS)
def test_gymnasium_check_env(env_id, obs_mode):
    env = gym.make(env_id, obs_mode=obs_mode, render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=False)
    env.close()


@pytest.mark.parametrize("env_id", _IDS)
def test_spec_json_pickle_and_defaults(env_id):
    env = gym.make(env_id)
    assert gym.spec(env_id).to_json()
    assert env.unwrapped.obs_mode == ("image_text" if "oints" in env_id else "image")
    assert env.unwrapped.max_turns == {"EZ": 8, "Po": 20, "Nu": 10, "Bl": 15}[env_id[11:13]]
    env.reset(seed=3)
    copy = pickle.loads(pickle.dumps(env.unwrapped))  # noqa: S301 - our own bytes
    assert _walk(copy, random.Random(1)) == _walk(env.unwrapped, random.Random(1))


@_classes
def test_forced_deals_are_json_values(env_class):
    deal = {"EZPointsEnv": ["H6", "SQ"], "Points24Env": ["H6", "SQ", "CA", "D2"], "NumberLineEnv": [1, 3]}
    deal = deal.get(env_class.__name__, ["H6", "SQ", "CA", "D2"])
    env_id = f"agent_envs/{env_class.__name__.removesuffix('Env')}-v0"
    env = gym.make(env_id, deal=deal)
    assert json.loads(env.spec.to_json())["kwargs"]["deal"] == deal
    states = []
    for index in (0, 1):
        env.reset(options={"task_index": index})
        states.append(env.unwrapped.canonical_state())
    assert states[0] == states[1]
    assert env.unwrapped.fingerprint() != env_class().fingerprint()


@_classes
@pytest.mark.parametrize("obs_mode", _MODES)
def test_observations_lie_in_the_space_and_are_new(env_class, obs_mode):
    env = env_class(obs_mode=obs_mode, max_turns=60)
    observation, _ = env.reset(seed=0)
    rng = random.Random(0)
    for _ in range(40):
        assert env.observation_space.contains(observation)
        if obs_mode != "text":
            image = observation["image"]
            assert image.shape == (300, 300, 3) and image.dtype == np.uint8 and image.flags.writeable
            image[...] = 0  # must not reach any cache
        before, (observation, *_) = observation, env.step(rng.choice(env.vocabulary.symbols))
        assert before is not observation
        if obs_mode != "text":
            assert observation["image"].any()


@_classes
def test_text_of_the_modes(env_class):
    texts = {}
    for mode in _MODES:
        env = env_class(obs_mode=mode)
        observation, _ = env.reset(options={"task_index": 4})
        later = env.step(env.vocabulary.symbols[0])[0]
        texts[mode] = [observation, later] if mode == "text" else [observation["text"], later["text"]]
    assert texts["image"][0] == texts["image"][1]
    formula_game = env_class in (EZPointsEnv, Points24Env)
    assert (texts["image_text"][0] == "Formula: ") == formula_game
    assert (texts["image_text"] == texts["image"]) != formula_game


def test_words_of_the_text_mode():
    def first(env):
        return env.reset(seed=0)[0]

    env = EZPointsEnv(obs_mode="text", deal=["H6", "SQ"])
    assert first(env) == "Cards: 6 of hearts, Q of spades. Numbers: 6, 10. Formula: "
    env.step("6")
    assert env.step("+")[0] == "Cards: 6 of hearts, Q of spades. Numbers: 6, 10. Formula: 6 +"
    assert env.step("6")[0].endswith("Formula: 6 +\nRefused: no unused card has this number.")
    assert env.step("10")[0].endswith("Formula: 6 + 10")
    assert first(NumberLineEnv(obs_mode="text", deal=[1, 3])) == "Target: 3. Current: 1."
    env = BlackjackEnv(obs_mode="text", deal=["HQ", "C7", "CA", "S7"])
    assert first(env) == "Dealer shows Q of hearts. Your cards: A of clubs, 7 of spades."
    assert env.step("stand")[0] == "Dealer has Q of hearts, 7 of clubs. Your cards: A of clubs, 7 of spades."
    assert card_name(("T", "D")) == "10 of diamonds"


@_classes
def test_info_keys_and_types_are_fixed(env_class):
    env = env_class(max_turns=6)
    _, info = env.reset(seed=0)
    types = {key: type(value) for key, value in info.items()}
    for action in ("nonsense", "+", "hit", "=", "stand", "+"):
        *_, info = env.step(action)
        step_only = {"action_is_valid": bool, "refusal": str}
        assert {key: type(value) for key, value in info.items()} == {**types, **step_only}
    assert types["admissible_actions"] is list
    assert env.task and types["score"] is float


@_classes
def test_steps_after_the_end_change_nothing(env_class):
    env = env_class(max_turns=3)
    env.reset(seed=0)
    results = [_plain(env.step(env.vocabulary.symbols[-1])) for _ in range(9)]
    late = results[-1]
    assert late[1] == 0.0 and (late[2] or late[3])
    assert late[4]["refusal"] == "episode_over" and not late[4]["action_is_valid"]
    assert results[-1] == results[-2]


# ---------------------------------------------------------------------- seeds


@_classes
def test_reset_with_a_seed_twice_is_equal_and_other_seeds_differ(env_class):
    one, two = env_class(), env_class()
    first, info = one.reset(seed=7)
    again, info_again = one.reset(seed=7)
    other, info_other = two.reset(seed=7)
    assert _plain((first, info)) == _plain((again, info_again)) == _plain((other, info_other))
    assert _walk(one, random.Random(3)) == _walk(two, random.Random(3))
    assert len({one.reset(seed=seed)[1]["task_id"] for seed in range(20)}) == 20


@_classes
def test_global_generators_are_untouched_and_unread(env_class):
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global generator is what is watched
    before = random.getstate(), np.random.get_state()[1].tolist()
    env = env_class(render_mode="rgb_array")
    _, info = env.reset(seed=1)
    walk = _walk(env, random.Random(0))
    env.render()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    random.seed(99)
    np.random.seed(99)  # noqa: NPY002
    assert env.reset(seed=1)[1] == info and _walk(env, random.Random(0)) == walk


_CHILD = """
import hashlib, json, sys
from agent_envs.envs import cards
snapshots = json.loads(sys.stdin.read())
result = []
for name, snapshot in snapshots:
    env = getattr(cards, name)(obs_mode="image_text")
    observation, info = env.restore(snapshot.encode())
    for action in ["+", "hit", "6", "=", "stand"]:
        step = env.step(action)
        result.append([hashlib.md5(step[0]["image"]).hexdigest(), step[0]["text"], *step[1:]])
    result.append([*env.reset()[1].items()])
print(json.dumps(result))
"""


@pytest.mark.slow  # two new processes
def test_new_processes_with_other_hash_seeds_continue_snapshots_alike():
    """Frames, texts, keys, rewards and the next task, in two processes and in this one."""
    snapshots, here = [], []
    for env_class in _CLASSES:
        env = env_class(obs_mode="image_text")
        env.reset(seed=11)
        for action in ("left", "hit", "*"):
            env.step(action)
        snapshots.append([env_class.__name__, env.snapshot().decode()])
        for action in ("+", "hit", "6", "=", "stand"):
            step = env.step(action)
            here.append([hashlib.md5(step[0]["image"]).hexdigest(), step[0]["text"], *step[1:]])
        here.append([list(item) for item in env.reset()[1].items()])
    root = os.path.dirname(os.path.dirname(agent_envs.__file__))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
        )
        for seed in ("1", "2")
    ]
    outputs = [child.communicate(json.dumps(snapshots), timeout=120)[0] for child in children]
    assert json.loads(outputs[0]) == json.loads(outputs[1]) == json.loads(json.dumps(here))
