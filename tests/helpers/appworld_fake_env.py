"""AppWorldEnv on the fake engine: the same environment, client, launcher, server and sandbox, without AppWorld."""

import json
import sys
from pathlib import Path

from agent_envs.envs.appworld.env import AppWorldEnv

WHO = {"first_name": "Ada", "last_name": "Reed", "email": "ada@example.com", "phone_number": "5550000001"}
PIN = "apis.simple_note.update_note(note_id={}, pinned=True)"
DONE = "apis.supervisor.complete_task()"


class FakeAppWorldEnv(AppWorldEnv):
    ENGINE = str(Path(__file__).with_name("appworld_fake_engine.py"))
    grace_s = 1.0

    def __init__(self, *, appworld_python=sys.executable, **kwargs):
        super().__init__(appworld_python=appworld_python, **kwargs)

    @classmethod
    def unavailable(cls):
        return None


def make_data(root):
    """Write the tasks of the fake engine below ``root/data``; return ``root`` as a string."""
    splits = {"train": ["aa_1", "aa_2", "bb_1"], "test_normal": ["cc_2", "cc_1"]}
    for split, ids in splits.items():
        _write(root / "data" / "datasets" / f"{split}.txt", "\n".join(ids) + "\n")
        for number, task_id in enumerate(ids):
            folder = root / "data" / "tasks" / task_id
            notes = ["Trip", "Ideas", f"Été {number}"]
            specs = {"instruction": f"Pin the note {notes[number]!r}.", "supervisor": WHO, "notes": notes}
            _write(folder / "specs.json", json.dumps({**specs, "datetime": "2024-03-15T10:00:00"}))
            private = {"pinned": [notes[number]], "answer": None}
            _write(folder / "ground_truth" / "private_data.json", json.dumps(private))
            _write(folder / "ground_truth" / "metadata.json", json.dumps({"difficulty": 1 + number % 3}))
            _write(folder / "oracle.json", json.dumps([PIN.format(number), DONE]))
    return str(root)


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
