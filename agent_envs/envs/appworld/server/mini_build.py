"""Builds the mini world: own people, tasks, tests and solutions in AppWorld's own apps, through its public interface.

Run by AppWorld's interpreter as ``python -I mini_build.py FOLDER``; the task data goes to ``FOLDER/data``.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

VERSION = 1
"""Raised whenever the built data changes."""
_HERE = Path(__file__).parent
_MEMORY, _TASK_MEMORY = ":memory:mini", ":memory:mini_task"
_NOW = (2024, 3, 15, 10, 0, 0)  # a Friday
_TESTS = (
    ("assert only the models of the task have changed", "no_op_pass"),
    ("assert no more rows have changed than the task needs", "no_op_pass"),
    ("assert the answer is right", "no_op_fail"),
)


def _be_the_package() -> None:
    """Let the modules beside this file be imported by their full names, without importing agent_envs itself."""
    parent = ""
    for part in ("agent_envs", "envs", "appworld", "server"):
        parent = f"{parent}.{part}".lstrip(".")
        module = types.ModuleType(parent)
        module.__path__ = [str(_HERE)] if part == "server" else []
        sys.modules.setdefault(parent, module)


_be_the_package()
people, tasks, simple, harder = (
    importlib.import_module(f"agent_envs.envs.appworld.server.mini_{name}")
    for name in ("people", "tasks", "simple", "harder")
)


TEMPLATES = (*simple.TEMPLATES, *harder.TEMPLATES)


class _AppWorld:
    """What is used of the package; imported late, because it reads APPWORLD_ROOT when it is imported."""

    def __init__(self) -> None:
        def get(module: str, *names: str) -> Any:
            loaded = importlib.import_module(f"appworld.{module}")
            return [getattr(loaded, name) for name in names]

        (self.get_all_apps,) = get("apps", "get_all_apps")
        self.set_dbs, self.freeze, self.unfreeze = get(
            "apps.api_lib", "set_local_dbs", "set_local_date_and_time", "unset_local_date_and_time"
        )
        (self.Models,) = get("collections.models", "ModelCollection")
        (self.Apis,) = get("collections.apis", "ApiCollection")
        (self.ApiDocs,) = get("collections.api_docs", "ApiDocCollection")
        (self.DateTime,) = get("common.datetime", "DateTime")
        (self.db_version,) = get("common.constants", "DB_VERSION")


class Builder:
    """Writes base databases, tasks, datasets and API documents below a folder."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.world = _AppWorld()
        self.apps = list(self.world.get_all_apps())
        self.now = self.world.DateTime(*_NOW)
        self.people = people.make_people()

    def build(self) -> None:
        """Build everything."""
        self.data.mkdir(parents=True)
        clock = self.world.freeze(self.now)
        self._build_base()
        self._build_tasks()
        self.world.unfreeze(clock)
        self._build_api_docs()
        _write(self.data / "version.json", {"mini": VERSION, "db_version": self.world.db_version})

    # ------------------------------------------------------------------ base databases

    def _build_base(self) -> None:
        world = self.world
        world.set_dbs(to_db_home_path=_MEMORY, from_db_home_path=_MEMORY, app_names=self.apps, create=True)
        self.models = world.Models.load(to_db_home_path=_MEMORY, from_db_home_path=_MEMORY, load_apps=self.apps)
        self.apis, _ = world.Apis.load(
            to_db_home_path=_MEMORY, from_db_home_path=_MEMORY, date_and_time=self.now, max_num_requests=100_000
        )
        self._add_songs()
        everybody = [person.me for person in self.people] + people.all_friends()
        passwords = {person.me.email: person.passwords for person in self.people}
        users: dict[str, dict[str, int]] = {app: {} for app in people.APPS}
        for friend in everybody:
            for app in people.APPS:
                users[app][friend.email] = self._add_user(app, friend, passwords.get(friend.email, {}).get(app))
        for person in self.people:
            person.users.update(users)
            self._add_main_user(person)
            self._fill(person)
        self.models.save(
            db_home_path=str(self.data / "base_dbs"), app_names=self.apps, format="full", delete_if_exists=True
        )

    def _add_songs(self) -> None:
        artists: dict[str, int] = {}
        for song in people.catalogue():
            name = song["artist"]
            if name not in artists:
                made = self.models.spotify.Artist.create_save(name=name, genre=song["genre"], created_at=self.now)
                artists[name] = made.id
            fields = {key: song[key] for key in ("title", "genre", "duration")}
            made = self.models.spotify.Song.create_save(artist_ids=[artists[name]], release_date=self.now, **fields)
            assert made.id == song["id"]

    def _add_user(self, app: str, friend: Any, password: str | None) -> int:
        fields = {"first_name": friend.first_name, "last_name": friend.last_name, "password": password or "unused-1"}
        fields["phone_number" if app == "phone" else "email"] = friend.phone_number if app == "phone" else friend.email
        model = self.models[app]
        if app != "phone":
            fields["verified"] = True
        if app == "venmo":
            fields["venmo_balance"] = 900.0
        user = model.User.create_save(created_at=self.now, last_logged_in=self.now, **fields)
        if app == "todoist":
            inbox = model.Project.create_save(name="Inbox", user_id=user.id, is_inbox=True, created_at=self.now)
            self._own_project(inbox.id, user.id)
        if app == "spotify":
            model.MusicPlayer.create_save(user_id=user.id)
        return int(user.id)

    def _own_project(self, project_id: int, user_id: int) -> None:
        self.models.todoist.ProjectCollaboratorLink.create_save(
            project_id=project_id, user_id=user_id, created_at=self.now
        )

    def _add_main_user(self, person: Any) -> None:
        me = person.me
        user = self.models.admin.MainUser.create_save(**_who(me), birthday=me.birthday)
        for app, password in person.passwords.items():
            self.models.admin.AccountPassword.create_save(main_user_id=user.id, account_name=app, password=password)

    def _fill(self, person: Any) -> None:
        models, ids, now = self.models, person.ids, self.now
        for note in person.notes:
            models.simple_note.Note.create_save(user_id=ids["simple_note"], created_at=now, updated_at=now, **note)
        for alarm in person.alarms:
            models.phone.Alarm.create_save(
                user_id=ids["phone"], created_at=now, repeat_days=[], vibration=False, **alarm
            )
        for friend in person.friends:
            models.phone.Contact.create_save(
                user_id=ids["phone"],
                **_who(friend),
                relationships=[friend.relationship],
                birthday=friend.birthday,
                created_at=now,
            )
        for name, todo in person.projects.items():
            project = models.todoist.Project.create_save(name=name, user_id=ids["todoist"], created_at=now)
            self._own_project(project.id, ids["todoist"])
            for place, task in enumerate(todo):
                models.todoist.Task.create_save(
                    user_id=ids["todoist"], project_id=project.id, order_index=place, created_at=now, **task
                )
        folders = {"/", "/home/"} | {str(up) + "/" for path in person.files for up in list(Path(path).parents)[:-2]}
        for folder in sorted(folders):
            models.file_system.Directory.create_save(
                path=folder, user_id=ids["file_system"], created_at=now, updated_at=now
            )
        for path, content in person.files.items():
            models.file_system.File.create_save(
                path=path, content=content, user_id=ids["file_system"], created_at=now, updated_at=now
            )
        for song in person.library:
            models.spotify.UserLibrarySong.create_save(user_id=ids["spotify"], song_id=song["id"], created_at=now)
        for payment in person.payments:
            models.venmo.Transaction.create_save(
                sender_id=ids["venmo"],
                receiver_id=person.ids_of(payment["to"])["venmo"],
                amount=payment["amount"],
                description=payment["description"],
                created_at=now,
                updated_at=now,
            )
        for sender, text in person.texts:
            self._add_text(person.ids_of(sender)["phone"], ids["phone"], text)

    def _add_text(self, sender_id: int, receiver_id: int, text: str) -> None:
        phone = self.models.phone
        message = phone.GlobalTextMessage.create_save(
            sender_id=sender_id, receiver_id=receiver_id, message=text, created_at=self.now
        )
        for user_id in (sender_id, receiver_id):
            phone.UserTextMessage.create_save(global_text_message_id=message.id, user_id=user_id, created_at=self.now)

    # ------------------------------------------------------------------ tasks

    def _build_tasks(self) -> None:
        datasets: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
        for number, template in enumerate(TEMPLATES):
            for person in self.people:
                task_id = f"{tasks.scenario_id(number)}_{person.number + 1}"
                self._build_task(task_id, template, person)
                datasets[template.split].append(task_id)
        for name, ids in datasets.items():
            _write_text(self.data / "datasets" / f"{name}.txt", "\n".join(ids) + "\n")

    def _build_task(self, task_id: str, template: Any, person: Any) -> None:
        task = template.make(person)
        folder = self.data / "tasks" / task_id
        models = self._fresh_copy()
        self._add_supervisor(models, person, task.instruction)
        models.save(db_home_path=str(folder / "dbs"), app_names=self.apps, format="changes", delete_if_exists=True)
        models.close()
        specs = {"instruction": task.instruction, "supervisor": _who(person.me), "datetime": self.now.isoformat()}
        _write(folder / "specs.json", {**specs, "db_version": self.world.db_version})
        _write(folder / "oracle.json", task.cells())
        truth = folder / "ground_truth"
        calls = "\n".join(task.cells()).count("apis.")
        metadata = {"mode": "minimal", "difficulty": template.difficulty, "template": template.name}
        sizes = {"num_apps": len(task.apps), "num_apis": calls, "num_api_calls": calls}
        lines = sum(cell.count("\n") + 1 for cell in task.cells())
        _write(truth / "metadata.json", {**metadata, **sizes, "num_solution_code_lines": lines})
        _write(truth / "public_data.json", {})
        fields = ("requirement", "model", "where", "expect", "count")
        checks = [{name: getattr(check, name) for name in fields} for check in task.checks]
        _write(truth / "private_data.json", {"checks": checks, "changes": task.changes})
        _write(truth / "answer.json", task.answer)
        labels = [(check.requirement, "no_op_fail") for check in task.checks] + list(_TESTS)
        _write(truth / "test_data.json", [{"requirement": text, "label": label} for text, label in labels])
        shutil.copyfile(_HERE / "mini_evaluation.py", truth / "evaluation.py")

    def _fresh_copy(self) -> Any:
        """Return the base databases in memory: numbers of rows begin at 1 again, as they will in the task."""
        base = str(self.data / "base_dbs")
        models = self.world.Models.load(to_db_home_path=_TASK_MEMORY, from_db_home_path=base, load_apps=self.apps)
        models.restart_db_tracker()
        return models

    def _add_supervisor(self, models: Any, person: Any, instruction: str) -> None:
        """Add what only this task's databases hold; the tracker records it."""
        tables = models.supervisor
        boss = tables.Supervisor.create_save(**_who(person.me), birthday=person.me.birthday)
        for app, password in person.passwords.items():
            tables.AccountPassword.create_save(supervisor_id=boss.id, account_name=app, password=password)
        tables.Task.create_save(supervisor_id=boss.id, instruction=instruction)

    def _build_api_docs(self) -> None:
        visible = tuple(app for app in self.apps if app != "admin")
        for app, documents in self.world.ApiDocs.build(load_apps=visible, include_response_schemas=True).items():
            marked = {name: {**document, "canary_string": "agent_envs"} for name, document in documents.items()}
            _write(self.data / "api_docs" / "standard" / f"{app}.json", marked)


def _who(friend: Any) -> dict[str, str]:
    return {name: getattr(friend, name) for name in ("first_name", "last_name", "email", "phone_number")}


def _write(path: Path, value: Any) -> None:
    _write_text(path, json.dumps(value, indent=1) + "\n")


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Build into the folder named on the command line, which must not have a ``data`` folder yet."""
    root = Path(sys.argv[1]).resolve()
    os.environ["APPWORLD_ROOT"] = str(root)
    os.environ["APPWORLD_CACHE"] = str(root / "cache")
    builder = Builder(root)
    builder.build()
    print(json.dumps({"tasks": len(TEMPLATES) * len(builder.people)}))


if __name__ == "__main__":
    main()
