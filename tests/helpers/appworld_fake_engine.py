"""A stand-in for AppWorld behind the real server, launcher and sandbox: two tiny apps, the same answers and messages.

Standard library only. It executes the tests' own code without any check, so that only the sandbox protects the host.
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace


class Timeout(BaseException):
    pass


class Engine:
    def __init__(self, config):
        self._data, self._outputs = Path(config["root"], "data"), Path(config["outputs"])
        self._fail = config["warm_task"] == "broken_1"
        self._names = {}

    def warm_up(self):
        print("noise on standard output")
        if self._fail:
            raise RuntimeError("the data are broken")

    def start(self, task_id, settings):
        folder = self._data / "tasks" / task_id
        specs = json.loads((folder / "specs.json").read_text())
        self._timeout_s = settings["timeout_seconds"]
        self._notes = {str(number): {"title": title, "pinned": False} for number, title in enumerate(specs["notes"])}
        self._done, self._answer = False, None
        apis = SimpleNamespace(
            simple_note=SimpleNamespace(search_notes=self._search, update_note=self._update),
            supervisor=SimpleNamespace(complete_task=self._complete),
        )
        self._names = {"apis": apis}
        return {name: specs[name] for name in ("instruction", "supervisor", "datetime")}

    def _search(self, query=""):
        return [{"note_id": key, **note} for key, note in self._notes.items() if query in note["title"]]

    def _update(self, note_id, pinned):
        self._notes[str(note_id)]["pinned"] = pinned
        return {"message": "Note updated."}

    def _complete(self, answer=None):
        self._done, self._answer = True, answer

    def execute(self, code):
        try:
            program = compile(code, "<python-input>", "exec")
        except SyntaxError as error:
            return f"Execution failed. Traceback:\nSyntax error in line:\n{error.text}\nMessage: {error.msg}"
        if "os.system" in code:
            return "Execution failed. Traceback:\nUsage of the following function is not allowed: os.system."
        signal.signal(signal.SIGALRM, self._ring)
        signal.alarm(self._timeout_s)
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(program, self._names)  # noqa: S102 - the text is a test's own, the process is confined
        except Timeout:
            return f"Execution failed. Traceback:\nExecution timed out after {self._timeout_s} seconds."
        except Exception:  # noqa: BLE001 - the answer says what it was
            return "Execution failed. Traceback:\n" + traceback.format_exc(limit=-1)
        finally:
            signal.alarm(0)
        return output.getvalue() or "Execution successful."

    def _ring(self, *_):
        raise Timeout

    def completed(self):
        return self._done

    def save(self):
        Path("end.json").write_text(json.dumps([self._notes, self._answer]))

    def judge(self, task_id, world):
        wanted = json.loads((self._data / "tasks" / task_id / "ground_truth" / "private_data.json").read_text())
        notes, answer = json.loads((self._outputs / world / "end.json").read_text())
        pinned = sorted(note["title"] for note in notes.values() if note["pinned"])
        tests = {"pinned": pinned == sorted(wanted["pinned"]), "answer": answer == wanted["answer"]}
        named = {kind: [{"requirement": t} for t, ok in tests.items() if ok is kind] for kind in (True, False)}
        return {"success": all(tests.values()), "num_tests": 2, "passes": named[True], "failures": named[False]}

    def digest(self):
        own = {k: repr(v) for k, v in self._names.items() if isinstance(v, (int, str, list)) and k != "__builtins__"}
        parts = {"db": [self._notes, self._answer], "namespace": own}
        return {k: hashlib.blake2b(json.dumps(v, sort_keys=True).encode()).hexdigest()[:32] for k, v in parts.items()}

    def close(self):
        self._names = {}


if __name__ == "__main__":
    sys.exit(os.EX_USAGE)
