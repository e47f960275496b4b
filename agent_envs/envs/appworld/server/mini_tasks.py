"""What the task templates of the mini world are made of. Standard library only.

A check of the evaluation names a model, a filter, and what the rows found must hold. ``changes`` says how many rows
of which models may be added, updated and removed; everything else must stay as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_envs.envs.appworld.server.mini_people import Friend, Person

LOGIN = """passwords = {entry['account_name']: entry['password'] for entry in apis.supervisor.show_account_passwords()}
profile = apis.supervisor.show_profile()

def login(app):
    username = profile['phone_number'] if app == 'phone' else profile['email']
    return getattr(apis, app).login(username=username, password=passwords[app])['access_token']

def all_pages(call, **arguments):
    found, page_index = [], 0
    while True:
        page = call(page_index=page_index, page_limit=20, **arguments)
        found += page
        if len(page) < 20:
            return found
        page_index += 1

token = {app: login(app) for app in [APPS]}"""
"""First piece of code of every solution; the placeholder is the apps that it uses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """The rows of a model that match a filter are ``count`` many and hold ``expect``."""

    requirement: str
    model: str
    """``"app.Model"``."""
    where: dict[str, Any]
    expect: dict[str, Any] = field(default_factory=dict)
    count: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MiniTask:
    """One task of one person."""

    instruction: str
    apps: tuple[str, ...]
    work: str
    """Second piece of code of the solution; it may set ``answer``."""
    answer: Any = None
    checks: tuple[Check, ...] = ()
    changes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Model to numbers of rows added, updated, removed."""

    def cells(self) -> list[str]:
        """Return the pieces of code that solve the task."""
        names = ", ".join(repr(app) for app in self.apps)
        done = (
            "apis.supervisor.complete_task()" if self.answer is None else "apis.supervisor.complete_task(answer=answer)"
        )
        return [LOGIN.replace("APPS", names), self.work, done]


Maker = Callable[[Person], MiniTask]


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A family of tasks, one per person."""

    name: str
    difficulty: int
    split: str
    make: Maker


def register_in(templates: list[Template]) -> Callable[..., Callable[[Maker], Maker]]:
    """Return a decorator ``template(difficulty, split="train")`` that appends to a list."""

    def template(difficulty: int, split: str = "train") -> Callable[[Maker], Maker]:
        def register(make: Maker) -> Maker:
            name = make.__name__.replace("_", "-")
            templates.append(Template(name=name, difficulty=difficulty, split=split, make=make))
            return make

        return register

    return template


def scenario_id(number: int) -> str:
    """Return the first part of the task ids of template ``number``; task ids hold one underscore."""
    return f"mini{number + 1:03d}"


# ---------------------------------------------------------------------- parts


def row(requirement: str, model: str, where: dict[str, Any], p: Person, *, count: int = 1, **expect: Any) -> Check:
    """Return a check of rows that belong to the person."""
    app = model.partition(".")[0]
    mine = {"user_id": p.ids[app], **where}
    return Check(requirement=requirement, model=model, where=mine, expect=expect, count=count)


def paid(friend: Friend, amount: int, reason: str, p: Person) -> Check:
    """Return a check that the person has paid a friend."""
    return Check(
        requirement=f"{friend.name} was paid",
        model="venmo.Transaction",
        where={"sender_id": p.ids["venmo"], "receiver_id": p.ids_of(friend)["venmo"], "description": reason},
        expect={"amount": amount},
    )


def payments(count: int) -> dict[str, tuple[int, int, int]]:
    """Return the changes of a number of payments."""
    # Besides the transactions: balances of both sides and a notification per receiver.
    return {"venmo.Transaction": (count, 0, 0), "venmo.User": (0, count + 1, 0), "venmo.Notification": (count, 0, 0)}


def project(name: str) -> str:
    """Return code that reads a project and its tasks into ``project`` and ``todo``."""
    return f"""projects = all_pages(apis.todoist.show_projects, access_token=token['todoist'])
project = [project for project in projects if project['name'] == {name!r}][0]
shown = apis.todoist.show_tasks(access_token=token['todoist'], project_id=project['project_id'])
todo = shown['no_section_tasks']"""


def note_content(title: str) -> str:
    """Return code that reads the text of a note into ``content``."""
    return f"""notes = all_pages(apis.simple_note.search_notes, access_token=token['simple_note'])
note_id = [note['note_id'] for note in notes if note['title'] == {title!r}][0]
content = apis.simple_note.show_note(access_token=token['simple_note'], note_id=note_id)['content']"""


def library() -> str:
    """Return code that reads the songs of the library into ``songs``."""
    return """library = all_pages(apis.spotify.show_song_library, access_token=token['spotify'])
songs = [apis.spotify.show_song(song_id=entry['song_id']) for entry in library]"""
