"""Templates of difficulty 1: one app, one fact. Standard library only."""

from __future__ import annotations

from agent_envs.envs.appworld.server.mini_people import Person
from agent_envs.envs.appworld.server.mini_tasks import MiniTask, Template, library, project, register_in, row

TEMPLATES: list[Template] = []
template = register_in(TEMPLATES)


@template(1)
def _pin_note(p: Person) -> MiniTask:
    title = p.notes[1]["title"]
    return MiniTask(
        instruction=f"Pin my note titled '{title}' in Simple Note.",
        apps=("simple_note",),
        work=f"""notes = all_pages(apis.simple_note.search_notes, access_token=token['simple_note'])
note = [note for note in notes if note['title'] == {title!r}][0]
apis.simple_note.update_note(access_token=token['simple_note'], note_id=note['note_id'], pinned=True)""",
        checks=(row("the note is pinned", "simple_note.Note", {"title": title}, p, pinned=True),),
        changes={"simple_note.Note": (0, 1, 0)},
    )


@template(1, "test")
def _count_notes_with_tag(p: Person) -> MiniTask:
    tag = ("home", "work", "travel")[p.number % 3]
    return MiniTask(
        instruction=f"How many of my notes in Simple Note have the tag '{tag}'?",
        apps=("simple_note",),
        work=f"""notes = all_pages(apis.simple_note.search_notes, access_token=token['simple_note'])
answer = len([note for note in notes if {tag!r} in note['tags']])""",
        answer=sum(tag in note["tags"] for note in p.notes),
    )


@template(1)
def _disable_alarm(p: Person) -> MiniTask:
    label = p.alarms[1]["label"]
    return MiniTask(
        instruction=f"Switch off the alarm '{label}' on my phone, but keep it in the list.",
        apps=("phone",),
        work=f"""alarms = all_pages(apis.phone.show_alarms, access_token=token['phone'])
alarm = [alarm for alarm in alarms if alarm['label'] == {label!r}][0]
apis.phone.update_alarm(access_token=token['phone'], alarm_id=alarm['alarm_id'], enabled=False)""",
        checks=(row("the alarm is off", "phone.Alarm", {"label": label}, p, enabled=False),),
        changes={"phone.Alarm": (0, 1, 0)},
    )


@template(1, "dev")
def _contact_number(p: Person) -> MiniTask:
    friend = p.friends[2]
    return MiniTask(
        instruction=f"What is the phone number of my contact {friend.name}?",
        apps=("phone",),
        work=f"""contacts = all_pages(apis.phone.search_contacts, access_token=token['phone'])
answer = [c['phone_number'] for c in contacts if c['email'] == {friend.email!r}][0]""",
        answer=friend.phone_number,
    )


@template(1, "test")
def _complete_todo(p: Person) -> MiniTask:
    title = p.projects["Allotment"][1]["title"]
    return MiniTask(
        instruction=f"Mark the task '{title}' in my Todoist project 'Allotment' as completed.",
        apps=("todoist",),
        work=project("Allotment")
        + f"""
task = [task for task in todo if task['title'] == {title!r}][0]
apis.todoist.update_task(access_token=token['todoist'], task_id=task['task_id'], is_completed=True)""",
        checks=(row("the task is completed", "todoist.Task", {"title": title}, p, is_completed=True),),
        changes={"todoist.Task": (0, 1, 0)},
    )


@template(1)
def _read_file(p: Person) -> MiniTask:
    path = f"{p.home}documents/meter_reading.txt"
    return MiniTask(
        instruction="What does the first line of the file ~/documents/meter_reading.txt say?",
        apps=("file_system",),
        work=f"""text = apis.file_system.show_file(access_token=token['file_system'], file_path={path!r})['content']
answer = text.splitlines()[0]""",
        answer=p.files[path].splitlines()[0],
    )


@template(1)
def _count_genre(p: Person) -> MiniTask:
    genre = ("folk", "jazz", "techno")[p.number % 3]
    return MiniTask(
        instruction=f"How many {genre} songs are in my Spotify song library?",
        apps=("spotify",),
        work=library() + f"\nanswer = len([song for song in songs if song['genre'] == {genre!r}])",
        answer=sum(song["genre"] == genre for song in p.library),
    )


@template(1)
def _add_todo(p: Person) -> MiniTask:
    title = ("Call the plumber", "Renew the pass", "Book the hall", "Return the drill")[p.number]
    return MiniTask(
        instruction=f"Add a task '{title}' with high priority to my Todoist project 'House'.",
        apps=("todoist",),
        work=project("House")
        + f"""
if not [task for task in todo if task['title'] == {title!r}]:
    apis.todoist.create_task(
        access_token=token['todoist'], project_id=project['project_id'], title={title!r}, priority='high')""",
        checks=(row("the task exists", "todoist.Task", {"title": title}, p, priority="high", is_completed=False),),
        changes={"todoist.Task": (1, 0, 0)},
    )


@template(1)
def _delete_file(p: Person) -> MiniTask:
    path = f"{p.home}downloads/manual.txt"
    return MiniTask(
        instruction="Delete the file ~/downloads/manual.txt.",
        apps=("file_system",),
        work=f"""if apis.file_system.file_exists(access_token=token['file_system'], file_path={path!r})['exists']:
    apis.file_system.delete_file(access_token=token['file_system'], file_path={path!r})""",
        checks=(row("the file is gone", "file_system.File", {"path": path}, p, count=0),),
        changes={"file_system.File": (0, 0, 1)},
    )
