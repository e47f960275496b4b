"""The task templates of the mini world: instruction, solution and tests for each person. Standard library only.

A check of the evaluation names a model, a filter, and what the rows found must hold. ``changes`` says how many rows
of which models may be added, updated and removed; everything else must stay as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

tokens = {app: login(app) for app in [APPS]}"""
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
        done = "apis.supervisor.complete_task()" if self.answer is None else "apis.supervisor.complete_task(answer=answer)"
        return [LOGIN.replace("APPS", names), self.work, done]


Maker = Callable[["Person"], MiniTask]


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A family of tasks, one per person."""

    name: str
    difficulty: int
    split: str
    make: Maker


TEMPLATES: list[Template] = []


def _template(difficulty: int, split: str = "train") -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        name = make.__name__.removeprefix("_").replace("_", "-")
        TEMPLATES.append(Template(name=name, difficulty=difficulty, split=split, make=make))
        return make

    return register


def scenario_id(number: int) -> str:
    """Return the first part of the task ids of template ``number``; task ids hold one underscore."""
    return f"mini{number + 1:03d}"


# ---------------------------------------------------------------------- one app, one fact


@_template(1)
def _pin_note(p: Person) -> MiniTask:
    title = p.notes[1]["title"]
    return MiniTask(
        instruction=f"Pin my note titled '{title}' in Simple Note.",
        apps=("simple_note",),
        work=f"""notes = all_pages(apis.simple_note.search_notes, access_token=tokens['simple_note'])
note = [note for note in notes if note['title'] == {title!r}][0]
apis.simple_note.update_note(access_token=tokens['simple_note'], note_id=note['note_id'], pinned=True)""",
        checks=(_row("the note is pinned", "simple_note.Note", {"title": title}, p, pinned=True),),
        changes={"simple_note.Note": (0, 1, 0)},
    )


@_template(1, "test")
def _count_notes_with_tag(p: Person) -> MiniTask:
    tag = ("home", "work", "travel")[p.number % 3]
    return MiniTask(
        instruction=f"How many of my notes in Simple Note have the tag '{tag}'?",
        apps=("simple_note",),
        work=f"""notes = all_pages(apis.simple_note.search_notes, access_token=tokens['simple_note'])
answer = len([note for note in notes if {tag!r} in note['tags']])""",
        answer=sum(tag in note["tags"] for note in p.notes),
    )


@_template(1)
def _disable_alarm(p: Person) -> MiniTask:
    label = p.alarms[1]["label"]
    return MiniTask(
        instruction=f"Switch off the alarm '{label}' on my phone, but keep it in the list.",
        apps=("phone",),
        work=f"""alarms = all_pages(apis.phone.show_alarms, access_token=tokens['phone'])
alarm = [alarm for alarm in alarms if alarm['label'] == {label!r}][0]
apis.phone.update_alarm(access_token=tokens['phone'], alarm_id=alarm['alarm_id'], enabled=False)""",
        checks=(_row("the alarm is off", "phone.Alarm", {"label": label}, p, enabled=False),),
        changes={"phone.Alarm": (0, 1, 0)},
    )


@_template(1, "dev")
def _contact_number(p: Person) -> MiniTask:
    friend = p.friends[2]
    return MiniTask(
        instruction=f"What is the phone number of my contact {friend.name}?",
        apps=("phone",),
        work=f"""contacts = all_pages(apis.phone.search_contacts, access_token=tokens['phone'])
answer = [c['phone_number'] for c in contacts if c['email'] == {friend.email!r}][0]""",
        answer=friend.phone_number,
    )


@_template(1, "test")
def _complete_todo(p: Person) -> MiniTask:
    title = p.projects["Allotment"][1]["title"]
    return MiniTask(
        instruction=f"Mark the task '{title}' in my Todoist project 'Allotment' as completed.",
        apps=("todoist",),
        work=_project("Allotment")
        + f"""
task = [task for task in todo if task['title'] == {title!r}][0]
apis.todoist.update_task(access_token=tokens['todoist'], task_id=task['task_id'], is_completed=True)""",
        checks=(_row("the task is completed", "todoist.Task", {"title": title}, p, is_completed=True),),
        changes={"todoist.Task": (0, 1, 0)},
    )


@_template(1)
def _read_file(p: Person) -> MiniTask:
    path = f"{p.home}documents/meter_reading.txt"
    return MiniTask(
        instruction="What does the first line of the file ~/documents/meter_reading.txt say?",
        apps=("file_system",),
        work=f"""text = apis.file_system.show_file(access_token=tokens['file_system'], file_path={path!r})['content']
answer = text.splitlines()[0]""",
        answer=p.files[path].splitlines()[0],
    )


@_template(1)
def _count_genre(p: Person) -> MiniTask:
    genre = ("folk", "jazz", "techno")[p.number % 3]
    return MiniTask(
        instruction=f"How many {genre} songs are in my Spotify song library?",
        apps=("spotify",),
        work=_library() + f"\nanswer = len([song for song in songs if song['genre'] == {genre!r}])",
        answer=sum(song["genre"] == genre for song in p.library),
    )


@_template(1)
def _add_todo(p: Person) -> MiniTask:
    title = ("Call the plumber", "Renew the pass", "Book the hall", "Return the drill")[p.number]
    return MiniTask(
        instruction=f"Add a task '{title}' with high priority to my Todoist project 'House'.",
        apps=("todoist",),
        work=_project("House")
        + f"""
if not [task for task in todo if task['title'] == {title!r}]:
    apis.todoist.create_task(access_token=tokens['todoist'], project_id=project['project_id'], title={title!r}, priority='high')""",
        checks=(_row("the task exists", "todoist.Task", {"title": title}, p, priority="high", is_completed=False),),
        changes={"todoist.Task": (1, 0, 0)},
    )


@_template(1)
def _delete_file(p: Person) -> MiniTask:
    path = f"{p.home}downloads/manual.txt"
    return MiniTask(
        instruction="Delete the file ~/downloads/manual.txt.",
        apps=("file_system",),
        work=f"""if apis.file_system.file_exists(access_token=tokens['file_system'], file_path={path!r})['exists']:
    apis.file_system.delete_file(access_token=tokens['file_system'], file_path={path!r})""",
        checks=(_row("the file is gone", "file_system.File", {"path": path}, p, count=0),),
        changes={"file_system.File": (0, 0, 1)},
    )


# ---------------------------------------------------------------------- several things, or something to compute


@_template(2)
def _unpin_all(p: Person) -> MiniTask:
    pinned = [note["title"] for note in p.notes if note["pinned"]]
    return MiniTask(
        instruction="Unpin all my pinned notes in Simple Note.",
        apps=("simple_note",),
        work="""for note in all_pages(apis.simple_note.search_notes, access_token=tokens['simple_note'], pinned=True):
    apis.simple_note.update_note(access_token=tokens['simple_note'], note_id=note['note_id'], pinned=False)""",
        checks=(_row("no note is pinned", "simple_note.Note", {"pinned": True}, p, count=0),),
        changes={"simple_note.Note": (0, len(pinned), 0)},
    )


@_template(2)
def _snooze_enabled(p: Person) -> MiniTask:
    minutes = 4 + p.number
    enabled = [alarm for alarm in p.alarms if alarm["enabled"]]
    return MiniTask(
        instruction=f"Set the snooze time of all enabled alarms on my phone to {minutes} minutes.",
        apps=("phone",),
        work=f"""for alarm in all_pages(apis.phone.show_alarms, access_token=tokens['phone']):
    if alarm['enabled']:
        apis.phone.update_alarm(access_token=tokens['phone'], alarm_id=alarm['alarm_id'], snooze_minutes={minutes})""",
        checks=(
            _row(
                "enabled alarms have the new snooze time",
                "phone.Alarm",
                {"enabled": True, "snooze_minutes": minutes},
                p,
                count=len(enabled),
            ),
        ),
        changes={"phone.Alarm": (0, len(enabled), 0)},
    )


@_template(2, "dev")
def _oldest_contact(p: Person) -> MiniTask:
    kind = ("friend", "coworker")[p.number % 2]
    oldest = min((f for f in p.friends if f.relationship == kind), key=lambda friend: friend.birthday)
    return MiniTask(
        instruction=f"Which of my phone contacts with the relationship '{kind}' was born first? Give the full name.",
        apps=("phone",),
        work=f"""contacts = all_pages(apis.phone.search_contacts, access_token=tokens['phone'], relationship={kind!r})
oldest = min(contacts, key=lambda contact: contact['birthday'])
answer = oldest['first_name'] + ' ' + oldest['last_name']""",
        answer=oldest.name,
    )


@_template(2, "test")
def _complete_high(p: Person) -> MiniTask:
    project = ("House", "Newsletter")[p.number % 2]
    titles = [t["title"] for t in p.projects[project] if t["priority"] == "high" and not t["is_completed"]]
    return MiniTask(
        instruction=f"Mark all high-priority tasks in my Todoist project '{project}' as completed.",
        apps=("todoist",),
        work=_project(project)
        + """
for task in todo:
    if task['priority'] == 'high' and not task['is_completed']:
        apis.todoist.update_task(access_token=tokens['todoist'], task_id=task['task_id'], is_completed=True)""",
        checks=tuple(
            _row(f"'{title}' is completed", "todoist.Task", {"title": title}, p, is_completed=True) for title in titles
        ),
        changes={"todoist.Task": (0, len(titles), 0)},
    )


@_template(2)
def _count_text_files(p: Person) -> MiniTask:
    folder = ("documents", "documents/old", "photos", "downloads")[p.number]
    prefix = f"{p.home}{folder}/"
    return MiniTask(
        instruction=f"How many .txt files are in ~/{folder}, including its sub-folders?",
        apps=("file_system",),
        work=f"""paths = apis.file_system.show_directory(access_token=tokens['file_system'], directory_path={prefix!r}, entry_type='files', recursive=True)
answer = len([path for path in paths if path.endswith('.txt')])""",
        answer=sum(path.startswith(prefix) and path.endswith(".txt") for path in p.files),
    )


@_template(2)
def _total_duration(p: Person) -> MiniTask:
    return MiniTask(
        instruction="How many seconds do the songs in my Spotify song library last altogether?",
        apps=("spotify",),
        work=_library() + "\nanswer = sum(song['duration'] for song in songs)",
        answer=sum(song["duration"] for song in p.library),
    )


@_template(2, "test")
def _total_sent(p: Person) -> MiniTask:
    friend = p.payments[0]["to"]
    return MiniTask(
        instruction=f"How many dollars have I sent to {friend.name} on Venmo in total?",
        apps=("venmo",),
        work=f"""sent = all_pages(apis.venmo.show_transactions, access_token=tokens['venmo'], direction='sent')
answer = int(sum(entry['amount'] for entry in sent if entry['receiver']['email'] == {friend.email!r}))""",
        answer=sum(payment["amount"] for payment in p.payments if payment["to"].email == friend.email),
    )


@_template(2)
def _pay_contact(p: Person) -> MiniTask:
    friend, amount, reason = p.friends[3], 11 + p.number, ("rent share", "fuel", "tent hire", "printing")[p.number]
    return MiniTask(
        instruction=f"Send {amount} dollars to my contact {friend.name} on Venmo with the description '{reason}'.",
        apps=("phone", "venmo"),
        work=f"""contacts = all_pages(apis.phone.search_contacts, access_token=tokens['phone'])
email = [c['email'] for c in contacts if c['first_name'] == {friend.first_name!r} and c['last_name'] == {friend.last_name!r}][0]
sent = all_pages(apis.venmo.show_transactions, access_token=tokens['venmo'], direction='sent')
if not [entry for entry in sent if entry['description'] == {reason!r}]:
    apis.venmo.create_transaction(access_token=tokens['venmo'], receiver_email=email, amount={amount}, description={reason!r})""",
        checks=(_paid(friend, amount, reason, p),),
        changes=_payments(1),
    )


@_template(2, "dev")
def _count_texts(p: Person) -> MiniTask:
    friend = p.friends[1]
    return MiniTask(
        instruction=f"How many text messages has {friend.name} sent to my phone?",
        apps=("phone",),
        work=f"""texts = all_pages(apis.phone.search_text_messages, access_token=tokens['phone'], phone_number={friend.phone_number!r})
answer = len([text for text in texts if text['sender']['phone_number'] == {friend.phone_number!r}])""",
        answer=sum(sender.email == friend.email for sender, _ in p.texts),
    )


@_template(2)
def _drop_longest(p: Person) -> MiniTask:
    return MiniTask(
        instruction="Remove the longest song from my Spotify song library.",
        apps=("spotify",),
        work=_library()
        + f"""
longest = max(songs, key=lambda song: song['duration'])
if len(songs) == {len(p.library)}:
    apis.spotify.remove_song_from_library(access_token=tokens['spotify'], song_id=longest['song_id'])""",
        checks=(
            _row(
                "the longest song is gone",
                "spotify.UserLibrarySong",
                {"song_id": max(p.library, key=lambda song: song["duration"])["id"]},
                p,
                count=0,
            ),
        ),
        changes={"spotify.UserLibrarySong": (0, 0, 1)},
    )


# ---------------------------------------------------------------------- across apps


@_template(3)
def _note_to_todo(p: Person) -> MiniTask:
    note = p.notes[2]
    lines = note["content"].splitlines()
    return MiniTask(
        instruction=f"Make a task in my Todoist project 'Newsletter' for each line of my note '{note['title']}'.",
        apps=("simple_note", "todoist"),
        work=_note(note["title"])
        + "\n"
        + _project("Newsletter")
        + """
for line in content.splitlines():
    if line not in [task['title'] for task in todo]:
        apis.todoist.create_task(access_token=tokens['todoist'], project_id=project['project_id'], title=line)""",
        checks=tuple(
            _row(f"there is a task '{line}'", "todoist.Task", {"title": line}, p, is_completed=False) for line in lines
        ),
        changes={"todoist.Task": (len(lines), 0, 0)},
    )


@_template(3, "test")
def _pay_from_note(p: Person) -> MiniTask:
    reason = "trip to the lake"
    return MiniTask(
        instruction=f"My note 'Lake trip' says what I owe to whom. Pay everyone on Venmo, description '{reason}'.",
        apps=("simple_note", "phone", "venmo"),
        work=_note("Lake trip")
        + f"""
contacts = all_pages(apis.phone.search_contacts, access_token=tokens['phone'])
emails = {{c['first_name'] + ' ' + c['last_name']: c['email'] for c in contacts}}
sent = all_pages(apis.venmo.show_transactions, access_token=tokens['venmo'], direction='sent')
paid = [entry['receiver']['email'] for entry in sent if entry['description'] == {reason!r}]
for line in content.splitlines():
    name, amount = line.split(': ')
    if emails[name] not in paid:
        apis.venmo.create_transaction(access_token=tokens['venmo'], receiver_email=emails[name], amount=int(amount), description={reason!r})""",
        checks=tuple(_paid(friend, amount, reason, p) for friend, amount in p.debts),
        changes=_payments(len(p.debts)),
    )


@_template(3)
def _file_to_note(p: Person) -> MiniTask:
    path = f"{p.home}documents/parking.txt"
    return MiniTask(
        instruction="Move the text of ~/documents/parking.txt into a new note titled 'Parking', then delete the file.",
        apps=("file_system", "simple_note"),
        work=f"""if apis.file_system.file_exists(access_token=tokens['file_system'], file_path={path!r})['exists']:
    text = apis.file_system.show_file(access_token=tokens['file_system'], file_path={path!r})['content']
    apis.simple_note.create_note(access_token=tokens['simple_note'], title='Parking', content=text)
    apis.file_system.delete_file(access_token=tokens['file_system'], file_path={path!r})""",
        checks=(
            _row("the note has the text", "simple_note.Note", {"title": "Parking"}, p, content=p.files[path]),
            _row("the file is gone", "file_system.File", {"path": path}, p, count=0),
        ),
        changes={"simple_note.Note": (1, 0, 0), "file_system.File": (0, 0, 1)},
    )


@_template(3, "test")
def _text_note(p: Person) -> MiniTask:
    note, friend = p.notes[4], p.friends[4]
    return MiniTask(
        instruction=f"Send the content of my note '{note['title']}' as a text message to my {friend.relationship}.",
        apps=("simple_note", "phone"),
        work=_note(note["title"])
        + f"""
contact = all_pages(apis.phone.search_contacts, access_token=tokens['phone'], relationship={friend.relationship!r})[0]
texts = all_pages(apis.phone.search_text_messages, access_token=tokens['phone'], phone_number=contact['phone_number'])
if content not in [text['message'] for text in texts]:
    apis.phone.send_text_message(access_token=tokens['phone'], phone_number=contact['phone_number'], message=content)""",
        checks=(
            Check(
                requirement="the text was sent",
                model="phone.GlobalTextMessage",
                where={"message": note["content"]},
                expect={"sender_id": p.ids["phone"], "receiver_id": p.ids_of(friend)["phone"]},
            ),
        ),
        changes={"phone.GlobalTextMessage": (1, 0, 0), "phone.UserTextMessage": (2, 0, 0)},
    )


@_template(3, "dev")
def _todo_to_file(p: Person) -> MiniTask:
    path = f"{p.home}documents/open_tasks.txt"
    titles = sorted(task["title"] for task in p.projects["Allotment"] if not task["is_completed"])
    return MiniTask(
        instruction="Write the titles of the open tasks of my Todoist project 'Allotment' to the new file "
        "~/documents/open_tasks.txt, one a line, in alphabetical order, nothing else.",
        apps=("todoist", "file_system"),
        work=_project("Allotment")
        + f"""
lines = sorted(task['title'] for task in todo if not task['is_completed'])
apis.file_system.create_file(access_token=tokens['file_system'], file_path={path!r}, content='\\n'.join(lines), overwrite=True)""",
        checks=(_row("the file lists the tasks", "file_system.File", {"path": path}, p, content="\n".join(titles)),),
        changes={"file_system.File": (1, 0, 0)},
    )


@_template(3)
def _library_to_note(p: Person) -> MiniTask:
    genre = ("jazz", "techno", "folk")[p.number % 3]
    titles = sorted(song["title"] for song in p.library if song["genre"] == genre)
    return MiniTask(
        instruction=f"Create a note titled 'My {genre}' with the titles of the {genre} songs of my Spotify song library, "
        "one a line, in alphabetical order.",
        apps=("spotify", "simple_note"),
        work=_library()
        + f"""
titles = sorted(song['title'] for song in songs if song['genre'] == {genre!r})
notes = all_pages(apis.simple_note.search_notes, access_token=tokens['simple_note'])
if 'My {genre}' not in [note['title'] for note in notes]:
    apis.simple_note.create_note(access_token=tokens['simple_note'], title='My {genre}', content='\\n'.join(titles))""",
        checks=(
            _row("the note lists the songs", "simple_note.Note", {"title": f"My {genre}"}, p, content="\n".join(titles)),
        ),
        changes={"simple_note.Note": (1, 0, 0)},
    )


# ---------------------------------------------------------------------- parts


def _row(requirement: str, model: str, where: dict[str, Any], p: Person, *, count: int = 1, **expect: Any) -> Check:
    """Return a check of rows that belong to the person."""
    app = model.partition(".")[0]
    mine = {"user_id": p.ids[app], **where}
    return Check(requirement=requirement, model=model, where=mine, expect=expect, count=count)


def _paid(friend: Friend, amount: int, reason: str, p: Person) -> Check:
    return Check(
        requirement=f"{friend.name} was paid",
        model="venmo.Transaction",
        where={"sender_id": p.ids["venmo"], "receiver_id": p.ids_of(friend)["venmo"], "description": reason},
        expect={"amount": amount},
    )


def _payments(count: int) -> dict[str, tuple[int, int, int]]:
    # Besides the transactions: balances of both sides and a notification per receiver.
    return {"venmo.Transaction": (count, 0, 0), "venmo.User": (0, count + 1, 0), "venmo.Notification": (count, 0, 0)}


def _project(name: str) -> str:
    return f"""projects = all_pages(apis.todoist.show_projects, access_token=tokens['todoist'])
project = [project for project in projects if project['name'] == {name!r}][0]
todo = apis.todoist.show_tasks(access_token=tokens['todoist'], project_id=project['project_id'])"""


def _note(title: str) -> str:
    return f"""notes = all_pages(apis.simple_note.search_notes, access_token=tokens['simple_note'])
note_id = [note['note_id'] for note in notes if note['title'] == {title!r}][0]
content = apis.simple_note.show_note(access_token=tokens['simple_note'], note_id=note_id)['content']"""


def _library() -> str:
    return """library = all_pages(apis.spotify.show_song_library, access_token=tokens['spotify'])
songs = [apis.spotify.show_song(song_id=entry['song_id']) for entry in library]"""
