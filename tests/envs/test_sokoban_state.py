"""State keys, snapshots and the golden transcripts of Sokoban."""

import base64
import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_envs
from agent_envs.envs.sokoban import SokobanEnv
from agent_envs.envs.sokoban.rules import WORDS
from agent_envs.errors import SnapshotError

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "data" / "sokoban" / "transcripts.json"


def custom(tmp_path: Path, *rows: str, **kwargs) -> SokobanEnv:
    """An environment that stands at the start of one given level."""
    (tmp_path / "train.txt").write_text("\n".join(rows) + "\n")
    env = SokobanEnv(level_dir=str(tmp_path), **kwargs)
    env.reset(seed=0)
    return env


# ------------------------------------------------------------------ keys


def play(env: SokobanEnv, index: int, walk: list[int]) -> tuple[str, bytes]:
    env.reset(options={"task_index": index})
    for direction in walk:
        env.step(WORDS[direction])
    return env.state_key(), env.room_state.tobytes() + env.room_fixed.tobytes()


walks = st.lists(st.integers(0, 3), max_size=12)


@settings(max_examples=60, deadline=None)
@given(index=st.integers(0, 9), first=walks, second=walks)
def test_keys_are_equal_iff_boards_are(index, first, second):
    env = SokobanEnv(num_boxes=2, dim_room=[6, 7], search_depth=30, max_turns=99)
    key, board = play(env, index, first)
    other_key, other_board = play(env, index, second)
    assert (key == other_key) == (board == other_board)


def test_equal_boards_by_two_paths_have_one_key(tmp_path):
    rows = ("#####", "#@  #", "#   #", "# $.#", "#####")
    keys = []
    for path in (("right", "down"), ("down", "right"), ("up", "down", "jump", "right")):
        env = custom(tmp_path, *rows)
        for word in path:
            env.step(word)
        keys.append(env.state_key())
    assert len(set(keys)) == 1


def test_the_players_place_is_part_of_the_key(tmp_path):
    env = custom(tmp_path, "#####", "#@  #", "# $.#", "#####")
    start = env.state_key()
    moved = env.step("right")[4]["state_key"]
    assert moved != start
    assert env.step("left")[4]["state_key"] == start


def test_observation_keys_group_like_boards():
    env = SokobanEnv(state_key="observation", obs_mode="image")
    _, info = env.reset(seed=0)
    assert env.step("jump")[4]["state_key"] == info["state_key"]


# ------------------------------------------------------------------ snapshots

WALK = ["up", "left", "jump", "down", "right", "up", "left"]


def trace(env: SokobanEnv, actions: list[str]) -> list[object]:
    steps = [env.step(action) for action in actions]
    return [[observation, reward, term, trunc, info] for observation, reward, term, trunc, info in steps]


def test_snapshot_round_trip_mid_episode():
    env = SokobanEnv(num_boxes=2)
    env.reset(seed=3)
    trace(env, WALK[:4])
    saved = env.snapshot()
    expected = trace(env, WALK[4:]), env.reset()
    other = SokobanEnv(num_boxes=2)
    _, info = other.restore(saved)
    assert info["turn"] == 4
    assert (trace(other, WALK[4:]), other.reset()) == expected


def test_snapshot_continues_in_a_new_process():
    env = SokobanEnv()
    env.reset(seed=3)
    trace(env, WALK[:4])
    saved = base64.b64encode(env.snapshot()).decode()
    expected = [*(step[4]["state_key"] for step in trace(env, WALK[4:])), env.reset()[1]["task_id"]]
    code = f"""
import base64
from agent_envs.envs.sokoban import SokobanEnv
env = SokobanEnv()
env.restore(base64.b64decode({saved!r}))
print(*(env.step(action)[4]["state_key"] for action in {WALK[4:]!r}), env.reset()[1]["task_id"])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == expected


def test_a_finished_episode_stays_finished(tmp_path):
    env = custom(tmp_path, "#####", "#@$.#", "#####")
    env.step("right")
    other = SokobanEnv(level_dir=str(tmp_path))
    _, info = other.restore(env.snapshot())
    assert info["success"] and info["score"] == 1.0 and info["moved"]
    assert other.step("left")[1:4] == (0.0, True, False)


@pytest.mark.parametrize("row", ["010004", "0144", 7])
def test_a_foreign_board_is_refused_and_the_episode_goes_on(row):
    env = SokobanEnv()
    env.reset(seed=0)
    env.step("up")
    data = json.loads(env.snapshot())
    key = env.state_key()
    data["state"]["room"][2] = row
    with pytest.raises(SnapshotError, match="cannot be restored"):
        env.restore(json.dumps(data).encode())
    assert env.state_key() == key and env.step("up")[4]["turn"] == 2


def test_a_snapshot_of_other_parameters_is_refused():
    env = SokobanEnv()
    env.reset(seed=0)
    with pytest.raises(SnapshotError, match="other tasks"):
        SokobanEnv(search_depth=30).restore(env.snapshot())


def test_pickle_keeps_the_episode():
    env = SokobanEnv(obs_mode="image", num_boxes=2)
    env.reset(seed=2)
    env.step("up")
    copy = pickle.loads(pickle.dumps(env))
    for action in WALK:
        mine, theirs = env.step(action), copy.step(action)
        assert np.array_equal(mine[0]["image"], theirs[0]["image"]) and mine[1:] == theirs[1:]


# ------------------------------------------------------------------ golden transcript


def transcript(index: int) -> dict:
    """Solve a task after a few detours; record what the agent sees and gets."""
    env = SokobanEnv(split="test", search_depth=30, num_boxes=1 + index // 2, render_mode="rgb_array")
    observation, info = env.reset(options={"task_index": index})
    steps = []
    for action in ["up", "go up, not down", *WALK[:2], None]:
        for word in [action] if action else env.example_actions():
            text, reward, terminated, truncated, info = env.step(word)
            digest = hashlib.blake2b(env.render().tobytes(), digest_size=8).hexdigest()
            steps.append([word, text, round(reward, 6), terminated, truncated, info["state_key"], digest])
    return {"task_id": info["task_id"], "start": observation, "steps": steps}


def test_golden_transcripts():
    """Made by this function; ``AGENT_ENVS_REGENERATE_GOLDEN=1`` writes the file anew (say why in the commit)."""
    transcripts = [transcript(index) for index in range(3)]
    if os.environ.get("AGENT_ENVS_REGENERATE_GOLDEN") == "1":
        versions = {"agent_envs": agent_envs.__version__, "gymnasium": gym.__version__, "numpy": np.__version__}
        data = {"made_by": "tests/envs/test_sokoban_state.py", "versions": versions, "transcripts": transcripts}
        GOLDEN.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(GOLDEN.read_text(encoding="utf-8"))["transcripts"] == transcripts
