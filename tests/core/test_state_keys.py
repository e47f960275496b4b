"""State keys: equal iff the canonical states are, in every process; the registry of key functions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_envs import ToyGridEnv, ToyShopEnv

from agent_envs import keys, register_state_key
from agent_envs.keys import canonical_json, observation_json, state_digest

WALK = st.lists(st.sampled_from(["open 0", "open 1", "open 3", "back", "nonsense", "draw"]), max_size=12)


def play(env, walk, index=1):
    _, info = env.reset(seed=0, options={"task_index": index})
    for action in walk:
        info = env.step(action)[4]
    return info["state_key"]


@given(first=WALK, second=WALK)
@settings(max_examples=60, deadline=None)
def test_key_is_equal_iff_the_state_is_whatever_the_history(first, second):
    here, there = ToyShopEnv(), ToyShopEnv()
    same_key = play(here, first) == play(there, second)
    assert same_key == (here.canonical_state() == there.canonical_state())


def test_key_has_the_documented_form():
    env = ToyShopEnv()
    key = play(env, ["open 1"])
    assert key == state_digest("ToyShopEnv", 0, "toyshop/train/1", {"page": 1})
    assert len(key) == 32 and int(key, 16) >= 0


def test_key_depends_on_task_class_and_version():
    def with_version(version):
        return type("ToyShopEnv", (ToyShopEnv,), {"STATE_VERSION": version})

    found = {play(ToyShopEnv(), []), play(ToyShopEnv(), [], index=2), play(with_version(1)(), [])}
    assert len(found) == 3
    assert play(with_version(0)(), []) in found


def test_key_is_the_same_in_another_process_and_hash_seed():
    code = (
        "from toy_envs import ToyShopEnv; e = ToyShopEnv(); e.reset(options={'task_index': 1});"
        "print(e.step('open 2')[4]['state_key'])"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *filter(None, sys.path)])
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == play(ToyShopEnv(), ["open 2"])


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=8,
))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_canonical_json_is_one_text_per_value(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == text


def test_lone_surrogates_have_a_key():
    assert state_digest("E", 0, "t", {"text": "\ud800"}) != state_digest("E", 0, "t", {"text": "\ud801"})


@pytest.mark.parametrize("state", [{1, 2}, np.zeros(2), np.int64(3), object(), b"x"])
def test_state_must_be_json(state):
    with pytest.raises(TypeError):
        canonical_json({"state": state})


@pytest.mark.parametrize("state", [float("nan"), float("inf")])
def test_state_must_be_finite(state):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([state])


def test_observation_key_groups_equal_observations():
    class TwoDoors(ToyShopEnv):
        """Pages 0 and 1 look the same."""

        def _observe(self):
            return "a page" if self._page >= 0 else "results"

    def pair(name):
        return [play(TwoDoors(state_key=name), [walk]) for walk in ("open 0", "open 1")]

    canonical, observed = pair("canonical"), pair("observation")
    assert canonical[0] != canonical[1] and observed[0] == observed[1]


def test_observation_key_of_frames():
    env = ToyGridEnv(state_key="observation")
    start = play(env, [], index=0)
    assert play(env, ["down"], index=0) != start
    assert play(env, ["down", "up"], index=0) == start == play(env, ["sideways"], index=0)


def test_observation_json_tells_dtype_and_shape():
    flat = np.zeros(4, np.uint8)
    texts = {canonical_json(observation_json(a)) for a in (flat, flat.reshape(2, 2), flat.astype(np.int8), flat + 1)}
    assert len(texts) == 4
    assert observation_json(flat.reshape(2, 2)[:, ::-1]) == observation_json(flat.reshape(2, 2))


def by_page_parity(env):
    return env._page % 2


def test_registered_key_function(monkeypatch):
    monkeypatch.setattr(keys, "_REGISTRY", dict(keys._REGISTRY))
    register_state_key("parity", by_page_parity)
    register_state_key("parity", by_page_parity)
    with pytest.raises(ValueError, match="'parity' is registered already"):
        register_state_key("parity", lambda env: 0)
    env = ToyShopEnv(state_key="parity")
    assert play(env, ["open 1"]) == play(env, ["open 3"]) != play(env, ["open 0"])
    register_state_key("by_path", "agent_envs.keys:_canonical")
    register_state_key("by_path", "agent_envs.keys:_canonical")
    assert play(ToyShopEnv(state_key="by_path"), ["open 1"]) == play(ToyShopEnv(), ["open 1"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((np.zeros(2), "a"), (np.zeros(2), "b")),
        ([np.int64(1)], [np.int64(2)]),
        ({"image": [np.zeros(1)]}, {"image": [np.ones(1)]}),
        (np.float32(0.5), np.float32(0.25)),
    ],
)
def test_observations_of_nested_spaces_have_keys(one, other):
    texts = [canonical_json(observation_json(value)) for value in (one, other)]
    assert texts[0] != texts[1] and texts[0] == canonical_json(observation_json(one))
