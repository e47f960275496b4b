"""Snapshots: bytes that continue an episode, and refuse what they do not fit."""

import json

import pytest
from toy_envs import ToyGridEnv, ToyShopEnv

from agent_envs.errors import SnapshotError


def played(*actions, **kwargs):
    env = ToyShopEnv(**kwargs)
    env.reset(seed=3, options={"task_index": 1})
    for action in actions:
        env.step(action)
    return env


def changed(env, fields):
    return json.dumps({**json.loads(env.snapshot()), **fields}).encode()


@pytest.mark.parametrize("actions", [(), ("open 2", "draw"), ("open 1", "buy"), ("nonsense",)])
def test_the_future_is_the_same(actions):
    here, there = played(*actions), ToyShopEnv()
    observation, info = there.restore(here.snapshot())
    assert (observation, info["state_key"], info["turn"]) == (here._observe(), here.state_key(), len(actions))
    for action in ("draw", "open 1", "buy", "draw"):
        assert there.step(action) == here.step(action)
    assert there.reset() == here.reset()


def test_turn_limit_goes_on():
    env = ToyShopEnv(max_turns=3)
    env.restore(played("back", "back").snapshot())
    assert env.step("back")[3] is True


def test_saving_twice_gives_the_same_bytes_and_changes_nothing():
    env = played("open 2")
    assert env.snapshot() == env.snapshot()
    assert env.step("draw") == played("open 2").step("draw")


def test_nothing_to_save():
    with pytest.raises(SnapshotError, match="call reset"):
        ToyShopEnv().snapshot()


def test_environment_without_snapshots():
    env = ToyGridEnv()
    env.reset(seed=0)
    with pytest.raises(SnapshotError, match="ToyGridEnv has no snapshots"):
        env.snapshot()


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{}", b'{"format": 1}', b"[" * 100_000])
def test_damaged_bytes(data):
    with pytest.raises(SnapshotError, match="Not a snapshot"):
        ToyShopEnv().restore(data)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"format": 9}, "format 9 is not 1"),
        ({"env": "OtherEnv"}, "is of OtherEnv state version 0, this is ToyShopEnv version 0"),
        ({"state_version": 7}, "state version 7"),
        ({"fingerprint": "00"}, "made with other tasks"),
        ({"split": "dev"}, "made with other tasks"),
        ({"index": 99}, "cannot be restored"),
        ({"state": {}}, "cannot be restored"),
        ({"rng": {"bit_generator": "PCG64"}}, "cannot be restored"),
        ({"turn": None}, "cannot be restored: its 'turn' is None"),
        ({"turn": -7}, "its 'turn' is -7"),
        ({"index": True}, "its 'index' is True"),
        ({"terminated": "false"}, "its 'terminated' is 'false'"),
        ({"score": float("nan")}, "its 'score' is nan"),
    ],
)
def test_snapshot_that_does_not_fit_leaves_the_running_episode(fields, text):
    env = played("open 2")
    with pytest.raises(SnapshotError, match=text):
        env.restore(changed(played("open 0", "draw"), fields))
    assert env.step("draw") == played("open 2").step("draw")
