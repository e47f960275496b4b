"""What every environment must keep, on the four games: spaces, seeds, keys, frames, snapshots, processes."""

import hashlib
import itertools
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
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_envs
from agent_envs.core import AgentEnv
from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env
from agent_envs.envs.cards.draw import (
    RANKS,
    SUITS,
    blackjack_frame,
    card_image,
    card_name,
    numberline_frame,
    points_frame,
)
from agent_envs.errors import SnapshotError

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


# ---------------------------------------------------------------------- keys


@given(actions=st.lists(st.sampled_from(["2", "6", "10", "+", "*", "=", "12", "bad"]), max_size=9))
@settings(deadline=None, max_examples=60)
def test_ezpoints_key_follows_the_state(actions):
    _check_keys(EZPointsEnv(obs_mode="text", deal=["H6", "S2"], max_turns=50), actions)


@given(actions=st.lists(st.sampled_from(["1", "8", "+", "/", "(", ")", "=", "-"]), max_size=26))
@settings(deadline=None, max_examples=60)
def test_points24_key_follows_the_state(actions):
    env = Points24Env(obs_mode="text", deal=["H8", "S8", "CA", "DA"], max_turns=50, rules="official")
    _check_keys(env, actions)


@given(actions=st.lists(st.sampled_from(["left", "right", "bad"]), max_size=12))
@settings(deadline=None, max_examples=40)
def test_numberline_key_follows_the_state(actions):
    _check_keys(NumberLineEnv(obs_mode="text", deal=[2, 5]), actions)


@given(actions=st.lists(st.sampled_from(["hit", "hit", "stand", "bad"]), max_size=8), index=st.integers(0, 400))
@settings(deadline=None, max_examples=60)
def test_blackjack_key_follows_the_state(actions, index):
    _check_keys(BlackjackEnv(obs_mode="text"), actions, index)


def _check_keys(env: AgentEnv, actions, index=0):
    """Along a walk, keys are equal exactly if states are; a refused action keeps the key."""
    _, info = env.reset(options={"task_index": index})
    seen = [(env.canonical_state(), info["state_key"])]
    for action in actions:
        *_, info = env.step(action)
        seen.append((env.canonical_state(), info["state_key"]))
        if not info["action_is_valid"] and getattr(env, "on_invalid", "keep") == "keep":
            assert seen[-1] == seen[-2]
    for (state, key), (other, other_key) in itertools.combinations(seen, 2):
        assert (state == other) == (key == other_key)


@_classes
def test_key_holds_the_task_and_a_group_shares_it(env_class):
    options = {"deal": [1, 3] if env_class is NumberLineEnv else ["H6", "S2", "CA", "DA"]}
    if env_class is EZPointsEnv:
        options["deal"] = ["H6", "S2"]
    env, member = env_class(**options), env_class(**options)
    keys = [env.reset(options={"task_index": index})[1]["state_key"] for index in (0, 1)]
    assert keys[0] != keys[1]
    assert member.reset(options={"task_index": 1})[1]["state_key"] == keys[1]
    assert isinstance(keys[0], str) and len(keys[0]) == 32


@_classes
def test_canonical_state_is_plain_json(env_class):
    env = env_class()
    env.reset(seed=0)
    for action in ("+", "hit"):
        env.step(action)
        state = env.canonical_state()
        assert json.loads(json.dumps(state)) == state


# ---------------------------------------------------------------------- snapshots


@_classes
def test_snapshot_in_the_middle_of_an_episode(env_class):
    rng = random.Random(2)
    for length in range(7):
        env, other = env_class(), env_class()
        env.reset(seed=length)
        _walk(env, rng, length)
        snapshot = env.snapshot()
        observation, info = other.restore(snapshot)
        assert _plain((observation,)) == _plain((env._observe(),))
        assert other.canonical_state() == env.canonical_state() and info["state_key"] == env.state_key()
        assert other.snapshot() == snapshot
        seed = rng.random()
        assert _walk(env, random.Random(seed)) == _walk(other, random.Random(seed))
        assert _plain(env.reset()) == _plain(other.reset())


def test_snapshot_with_blanks_and_after_a_dealers_draw():
    env = EZPointsEnv(deal=["H6", "S2"], rules="official")
    env.reset()
    for action in ("6", "7", "*"):
        env.step(action)
    other = EZPointsEnv(deal=["H6", "S2"], rules="official")
    other.restore(env.snapshot())
    assert other.canonical_state()["formula"] == ["6", " ", "*"]
    env, other = BlackjackEnv(), BlackjackEnv()
    lengths = set()
    for index in range(30):
        env.reset(options={"task_index": index})
        env.step("hit")
        *_, info = env.step("stand")
        assert other.restore(env.snapshot())[1]["dealer"] == info["dealer"]
        lengths.add(len(info["dealer"]))
    assert max(lengths) > 3


@pytest.mark.parametrize(
    ("env_class", "state"),
    [
        (EZPointsEnv, {"formula": ["99"], "ended": False}),
        (EZPointsEnv, {"formula": ["="], "ended": False}),
        (EZPointsEnv, {"ended": False}),
        (NumberLineEnv, {"pos": 9}),
        (NumberLineEnv, {"pos": "1"}),
        (BlackjackEnv, {"player": 1, "dealer": 2, "ended": False}),
        (BlackjackEnv, {"player": 900, "dealer": 2, "ended": False}),
    ],
)
def test_damaged_snapshots_are_refused_and_the_episode_goes_on(env_class, state):
    env = env_class()
    env.reset(seed=4)
    data = json.loads(env.snapshot())
    before = env.state_key()
    with pytest.raises(SnapshotError):
        env.restore(json.dumps({**data, "state": state}).encode())
    assert env.state_key() == before


def test_snapshots_of_other_rules_are_refused():
    env = EZPointsEnv(rules="official")
    env.reset(seed=0)
    with pytest.raises(SnapshotError):
        EZPointsEnv().restore(env.snapshot())


# ---------------------------------------------------------------------- frames


def test_all_52_cards_are_legible():
    """Every two cards differ in at least 40 pixels at the smallest size used."""
    cards = [(rank, suit) for rank in RANKS for suit in SUITS]
    images = np.stack([card_image(card, 67, 93) for card in cards]).astype(np.int16)
    assert images.shape == (52, 93, 67, 3)
    for number, image in enumerate(images[:-1]):
        different = (np.abs(images[number + 1 :] - image) > 16).any(-1).sum((1, 2))
        assert different.min() >= 40, (cards[number], cards[number + 1 + int(different.argmin())])


def test_hearts_and_diamonds_are_red_the_others_black():
    for suit in SUITS:
        height, width = 93, 67
        middle = card_image(("7", suit), width, height)[height // 2, width // 2].astype(int)
        assert (middle[0] > 150) == (suit in "HD") and middle[1] < 60 and middle[2] < 60


def test_places_and_colours():
    table = (53, 101, 77)
    frame = points_frame([("6", "H"), ("Q", "S")], "6 +")
    assert tuple(frame[0, 0]) == table and tuple(frame[54, 70]) == table and tuple(frame[100, 100]) != table
    assert (frame[56:243, 5:140] != table).any(-1).mean() > 0.99  # the first card fills its place
    assert (frame[56:243, 141:152] == table).all()
    assert (frame[258:285, 10:120] > 200).any()
    frame = points_frame([("6", "H")] * 4, "6 +")
    assert (frame[104:195, 226:292] != table).any(-1).mean() > 0.98
    assert (frame[:103] == table).all() and (frame[212:230, 10:80] > 200).any() and (frame[240:260, 10:60] > 200).any()
    frame = numberline_frame(3, 1)
    assert tuple(frame[0, 0]) == (255, 255, 255) and frame[60:110, 30:200].min() == 0 and frame[180:230].min() == 0
    frame = blackjack_frame([("Q", "H"), None], [("A", "C"), ("7", "S")])
    assert (frame[26:122, 5:74] != table).any(-1).mean() > 0.98 and (frame[26:122, 79:147] != table).any(
        -1
    ).mean() > 0.98


def test_frames_are_equal_for_equal_states_and_differ_for_others():
    formulas = ["", "6", "6 +", "+ 6", "6 + 6", "6 * 6", "6 6", "6 + 10", "+ +", "* *"]
    for cards in ([("6", "H"), ("Q", "S")], [("6", "H"), ("Q", "S"), ("A", "C"), ("2", "D")]):
        frames = {points_frame(cards, formula).tobytes() for formula in formulas}
        assert len(frames) == len(formulas)
        assert points_frame(cards, "6 +").tobytes() in frames
    lines = {numberline_frame(goal, position).tobytes() for goal in range(6) for position in range(6)}
    assert len(lines) == 36


def test_long_formulas_stay_within_the_frame():
    cards, longest = [("J", "H")] * 4, " ".join(["10", "+"] * 4 + ["+"] * 13)
    frames = {points_frame(cards, longest + end).tobytes() for end in ("", " )", " *")}
    assert len(frames) == 3
    assert (points_frame(cards, longest)[240:, 292:] == (53, 101, 77)).all()


def test_every_card_of_a_long_hand_shows():
    hand = [("A", "C"), ("2", "H"), ("A", "S"), ("3", "D"), ("2", "C"), ("A", "H"), ("2", "S"), ("A", "D"), ("3", "H")]
    frames = [blackjack_frame([("Q", "H"), None], hand[:length]).tobytes() for length in range(2, 10)]
    assert len(set(frames)) == len(frames)
    other = blackjack_frame([("Q", "H"), None], [*hand[:6], ("9", "D"), *hand[7:]])
    assert other.tobytes() != frames[-1]


@_classes
def test_render(env_class):
    env = env_class(render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    image = observation["image"]
    assert (env.render() == image).all() and env.render() is not env.render()
    silent = env_class(obs_mode="text")
    silent.reset(seed=0)
    assert silent.render() is None


def test_uint8_frames_keep_their_dtype_whatever_their_values():
    space = EZPointsEnv().observation_space["image"]
    assert space.dtype == np.uint8 and space.high.max() == 255
    assert points_frame([("6", "H"), ("Q", "S")], "").dtype == np.uint8


def test_memory_of_many_tasks_is_bounded():
    """Frames of other tasks must not pile up: cards and lines of text are kept, frames are not."""
    import tracemalloc

    env = EZPointsEnv()
    for index in range(60):
        env.reset(options={"task_index": index})
    tracemalloc.start()
    for index in range(60, 260):
        env.reset(options={"task_index": index})
        env.step("+")
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 3_000_000  # 200 kept frames would be 54 MB
