"""Recorded visits to the WebShop: they replay exactly, or say why not."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.site import visits
from agent_envs.envs.webshop.site.record import MAX_BYTES, read_visit, replay_visit
from agent_envs.envs.webshop.site.visits import ShopSettings, Visit, Visits, search_action


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "visits"
    path.mkdir()
    return path


def visit_task_3(folder: Path) -> Visit:
    _, visit = Visits(ShopSettings(split="test", task_index=3, record_dir=folder)).start(None)
    return visit


@pytest.fixture
def recording(folder: Path) -> Path:
    visit = visit_task_3(folder)
    for action in visit.env.example_actions():
        visit.act(action)
    (path,) = folder.iterdir()
    return path


def test_a_recording_replays_with_the_same_keys_and_score(recording):
    start, turns = read_visit(recording)
    assert turns[-1].score == 1.0 and turns[-1].reward == 10.0 and turns[-1].terminated and turns[-1].success
    replayed = replay_visit(recording)
    assert [step.turn for step in replayed] == turns
    assert replayed[0].observation.startswith("WebShop [SEP] Instruction:")
    env = WebShopEnv()  # 15 turns: the limit is no part of a state
    _, info = env.reset(options={"split": "test", "task_index": 3})
    assert info["state_key"] == start.state_key == turns[0].state_key
    for turn in turns:
        info = env.step(turn.action)[4]
        assert info["state_key"] == turn.next_state_key
    assert info["score"] == 1.0


def test_a_visit_without_an_action_leaves_no_file(folder):
    visit_task_3(folder)
    assert list(folder.iterdir()) == []


def change(path: Path, line: int, **fields: Any) -> None:
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    lines[line] |= fields
    path.write_text("".join(json.dumps(record) + "\n" for record in lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "fields", "message"),
    [
        (0, {"format": "other"}, "expected 'agent_envs/webshop-visit'"),
        (0, {"version": 2}, "version 2"),
        (0, {"task_index": "3"}, "line 1 is damaged: task_index"),
        (0, {"task_index": True}, "line 1 is damaged: task_index"),
        (0, {"task_index": 4}, "starts in another state"),
        (0, {"fingerprint": "0" * 16}, "recorded with other tasks"),
        (0, {"split": "nowhere"}, "recorded with other tasks"),
        (0, {"data": "huge"}, "Unknown data 'huge'"),
        (1, {"action": "search[other words]"}, "turn 0 comes out differently: next_state_key"),
        (1, {"action": None}, "line 2 is damaged: action"),
        (-1, {"score": 0.5}, "comes out differently: score"),
        (-1, {"reward": 1.0}, "comes out differently: reward"),
    ],
)
def test_a_changed_recording_does_not_replay(recording, line, fields, message):
    change(recording, line, **fields)
    with pytest.raises(ValueError, match=re.escape(message)):
        replay_visit(recording)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1 is damaged"),
        (b"[]\n", "line 1 is damaged: not an object"),
        (b"{}\n", "lacks the field 'format'"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b'{"format": "agent_envs/webshop-visit"', "is cut off"),
        (b"[" * 100_000 + b"\n", "line 1 is damaged"),
        (b"x" * (MAX_BYTES + 1), "at most"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    path = tmp_path / "visit.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        replay_visit(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        replay_visit(tmp_path / "none.jsonl")


def test_the_largest_recording_is_within_the_limit(folder):
    visit = visit_task_3(folder)
    for number in range(visits.MAX_TURNS):
        visit.act(search_action(chr(0x1F300 + number) * 2000))
    assert visit.is_over
    (path,) = folder.iterdir()
    assert len(read_visit(path)[1]) == visits.MAX_TURNS and path.stat().st_size < MAX_BYTES
    assert len(list(folder.iterdir())) == 1  # no temporary file is left
