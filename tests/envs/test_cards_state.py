"""State keys and snapshots of the four games."""

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.core import AgentEnv
from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env
from agent_envs.errors import SnapshotError

_CLASSES = [EZPointsEnv, Points24Env, NumberLineEnv, BlackjackEnv]
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
