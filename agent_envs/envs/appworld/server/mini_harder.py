"""Templates of difficulty 2, several things or something to compute, and 3, across apps. Standard library only."""

from __future__ import annotations

from agent_envs.envs.appworld.server.mini_people import Person
from agent_envs.envs.appworld.server.mini_tasks import (
    Check,
    MiniTask,
    Template,
    library,
    note_content,
    paid,
    payments,
    project,
    register_in,
    row,
)

TEMPLATES: list[Template] = []
template = register_in(TEMPLATES)

# ---------------------------------------------------------------------- several things, or something to compute


@template(2)
def _unpin_all(p: Person) -> MiniTask:
    pinned = [note["title"] for note in p.notes if note["pinned"]]
    return MiniTask(
        instruction="Unpin all my pinned notes in Simple Note.",
        apps=("simple_note",),
        work="""for note in all_pages(apis.simple_note.search_notes, access_token=token['simple_note'], pinned=True):
    apis.simple_note.update_note(access_token=token['simple_note'], note_id=note['note_id'], pinned=False)""",
        checks=(row("no note is pinned", "simple_note.Note", {"pinned": True}, p, count=0),),
        changes={"simple_note.Note": (0, len(pinned), 0)},
    )


@template(2)
def _snooze_enabled(p: Person) -> MiniTask:
    minutes = 4 + p.number
    enabled = [alarm for alarm in p.alarms if alarm["enabled"]]
    return MiniTask(
        instruction=f"Set the snooze time of all enabled alarms on my phone to {minutes} minutes.",
        apps=("phone",),
        work=f"""for alarm in all_pages(apis.phone.show_alarms, access_token=token['phone']):
    if alarm['enabled']:
        apis.phone.update_alarm(access_token=token['phone'], alarm_id=alarm['alarm_id'], snooze_minutes={minutes})""",
        checks=(
            row(
                "enabled alarms have the new snooze time",
                "phone.Alarm",
                {"enabled": True, "snooze_minutes": minutes},
                p,
                count=len(enabled),
            ),
        ),
        changes={"phone.Alarm": (0, len(enabled), 0)},
    )


@template(2, "dev")
def _oldest_contact(p: Person) -> MiniTask:
    kind = ("friend", "coworker")[p.number % 2]
    oldest = min((f for f in p.friends if f.relationship == kind), key=lambda friend: friend.birthday)
    return MiniTask(
        instruction=f"Which of my phone contacts with the relationship '{kind}' was born first? Give the full name.",
        apps=("phone",),
        work=f"""contacts = all_pages(apis.phone.search_contacts, access_token=token['phone'], relationship={kind!r})
oldest = min(contacts, key=lambda contact: contact['birthday'])
answer = oldest['first_name'] + ' ' + oldest['last_name']""",
        answer=oldest.name,
    )


@template(2, "test")
def _complete_high(p: Person) -> MiniTask:
    name = ("House", "Newsletter")[p.number % 2]
    titles = [t["title"] for t in p.projects[name] if t["priority"] == "high" and not t["is_completed"]]
    return MiniTask(
        instruction=f"Mark all high-priority tasks in my Todoist project '{name}' as completed.",
        apps=("todoist",),
        work=project(name)
        + """
for task in todo:
    if task['priority'] == 'high' and not task['is_completed']:
        apis.todoist.update_task(access_token=token['todoist'], task_id=task['task_id'], is_completed=True)""",
        checks=tuple(
            row(f"'{title}' is completed", "todoist.Task", {"title": title}, p, is_completed=True) for title in titles
        ),
        changes={"todoist.Task": (0, len(titles), 0)},
    )


@template(2)
def _count_text_files(p: Person) -> MiniTask:
    folder = ("documents", "documents/old", "photos", "downloads")[p.number]
    prefix = f"{p.home}{folder}/"
    return MiniTask(
        instruction=f"How many .txt files are in ~/{folder}, including its sub-folders?",
        apps=("file_system",),
        work=f"""paths = apis.file_system.show_directory(
    access_token=token['file_system'], directory_path={prefix!r}, entry_type='files', recursive=True)
answer = len([path for path in paths if path.endswith('.txt')])""",
        answer=sum(path.startswith(prefix) and path.endswith(".txt") for path in p.files),
    )


@template(2)
def _total_duration(p: Person) -> MiniTask:
    return MiniTask(
        instruction="How many seconds do the songs in my Spotify song library last altogether?",
        apps=("spotify",),
        work=library() + "\nanswer = sum(song['duration'] for song in songs)",
        answer=sum(song["duration"] for song in p.library),
    )


@template(2, "test")
def _total_sent(p: Person) -> MiniTask:
    friend = p.payments[0]["to"]
    return MiniTask(
        instruction=f"How many dollars have I sent to {friend.name} on Venmo in total?",
        apps=("venmo",),
        work=f"""sent = all_pages(apis.venmo.show_transactions, access_token=token['venmo'], direction='sent')
answer = int(sum(entry['amount'] for entry in sent if entry['receiver']['email'] == {friend.email!r}))""",
        answer=sum(payment["amount"] for payment in p.payments if payment["to"].email == friend.email),
    )


@template(2)
def _pay_contact(p: Person) -> MiniTask:
    friend, amount, reason = p.friends[3], 11 + p.number, ("rent share", "fuel", "tent hire", "printing")[p.number]
    return MiniTask(
        instruction=f"Send {amount} dollars to my contact {friend.name} on Venmo with the description '{reason}'.",
        apps=("phone", "venmo"),
        work=f"""contacts = all_pages(apis.phone.search_contacts, access_token=token['phone'])
email = [c['email'] for c in contacts if c['first_name'] + ' ' + c['last_name'] == {friend.name!r}][0]
sent = all_pages(apis.venmo.show_transactions, access_token=token['venmo'], direction='sent')
if not [entry for entry in sent if entry['description'] == {reason!r}]:
    apis.venmo.create_transaction(
        access_token=token['venmo'], receiver_email=email, amount={amount}, description={reason!r})""",
        checks=(paid(friend, amount, reason, p),),
        changes=payments(1),
    )


@template(2, "dev")
def _count_texts(p: Person) -> MiniTask:
    friend = p.friends[1]
    return MiniTask(
        instruction=f"How many text messages has {friend.name} sent to my phone?",
        apps=("phone",),
        work=f"""number = {friend.phone_number!r}
texts = all_pages(apis.phone.search_text_messages, access_token=token['phone'], phone_number=number)
answer = len([text for text in texts if text['sender']['phone_number'] == number])""",
        answer=sum(sender.email == friend.email for sender, _ in p.texts),
    )


@template(2)
def _drop_longest(p: Person) -> MiniTask:
    return MiniTask(
        instruction="Remove the longest song from my Spotify song library.",
        apps=("spotify",),
        work=library()
        + f"""
longest = max(songs, key=lambda song: song['duration'])
if len(songs) == {len(p.library)}:
    apis.spotify.remove_song_from_library(access_token=token['spotify'], song_id=longest['song_id'])""",
        checks=(
            row(
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


@template(3)
def _note_to_todo(p: Person) -> MiniTask:
    note = p.notes[2]
    lines = note["content"].splitlines()
    return MiniTask(
        instruction=f"Make a task in my Todoist project 'Newsletter' for each line of my note '{note['title']}'.",
        apps=("simple_note", "todoist"),
        work=note_content(note["title"])
        + "\n"
        + project("Newsletter")
        + """
for line in content.splitlines():
    if line not in [task['title'] for task in todo]:
        apis.todoist.create_task(access_token=token['todoist'], project_id=project['project_id'], title=line)""",
        checks=tuple(
            row(f"there is a task '{line}'", "todoist.Task", {"title": line}, p, is_completed=False) for line in lines
        ),
        changes={"todoist.Task": (len(lines), 0, 0)},
    )


@template(3, "test")
def _pay_from_note(p: Person) -> MiniTask:
    reason = "trip to the lake"
    return MiniTask(
        instruction=f"My note 'Lake trip' says what I owe to whom. Pay everyone on Venmo, description '{reason}'.",
        apps=("simple_note", "phone", "venmo"),
        work=note_content("Lake trip")
        + f"""
contacts = all_pages(apis.phone.search_contacts, access_token=token['phone'])
emails = {{c['first_name'] + ' ' + c['last_name']: c['email'] for c in contacts}}
sent = all_pages(apis.venmo.show_transactions, access_token=token['venmo'], direction='sent')
paid = [entry['receiver']['email'] for entry in sent if entry['description'] == {reason!r}]
for line in content.splitlines():
    name, amount = line.split(': ')
    if emails[name] not in paid:
        apis.venmo.create_transaction(
            access_token=token['venmo'], receiver_email=emails[name], amount=int(amount), description={reason!r})""",
        checks=tuple(paid(friend, amount, reason, p) for friend, amount in p.debts),
        changes=payments(len(p.debts)),
    )


@template(3)
def _file_to_note(p: Person) -> MiniTask:
    path = f"{p.home}documents/parking.txt"
    return MiniTask(
        instruction="Move the text of ~/documents/parking.txt into a new note titled 'Parking', then delete the file.",
        apps=("file_system", "simple_note"),
        work=f"""if apis.file_system.file_exists(access_token=token['file_system'], file_path={path!r})['exists']:
    text = apis.file_system.show_file(access_token=token['file_system'], file_path={path!r})['content']
    apis.simple_note.create_note(access_token=token['simple_note'], title='Parking', content=text)
    apis.file_system.delete_file(access_token=token['file_system'], file_path={path!r})""",
        checks=(
            row("the note has the text", "simple_note.Note", {"title": "Parking"}, p, content=p.files[path]),
            row("the file is gone", "file_system.File", {"path": path}, p, count=0),
        ),
        changes={"simple_note.Note": (1, 0, 0), "file_system.File": (0, 0, 1)},
    )


@template(3, "test")
def _text_note(p: Person) -> MiniTask:
    note, friend = p.notes[4], p.friends[4]
    return MiniTask(
        instruction=f"Send the content of my note '{note['title']}' as a text message to my {friend.relationship}.",
        apps=("simple_note", "phone"),
        work=note_content(note["title"])
        + f"""
contact = all_pages(apis.phone.search_contacts, access_token=token['phone'], relationship={friend.relationship!r})[0]
texts = all_pages(apis.phone.search_text_messages, access_token=token['phone'], phone_number=contact['phone_number'])
if content not in [text['message'] for text in texts]:
    apis.phone.send_text_message(access_token=token['phone'], phone_number=contact['phone_number'], message=content)""",
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


@template(3, "dev")
def _todo_to_file(p: Person) -> MiniTask:
    path = f"{p.home}documents/open_tasks.txt"
    titles = sorted(task["title"] for task in p.projects["Allotment"] if not task["is_completed"])
    return MiniTask(
        instruction="Write the titles of the open tasks of my Todoist project 'Allotment' to the new file "
        "~/documents/open_tasks.txt, one a line, in alphabetical order, nothing else.",
        apps=("todoist", "file_system"),
        work=project("Allotment")
        + f"""
lines = sorted(task['title'] for task in todo if not task['is_completed'])
apis.file_system.create_file(
    access_token=token['file_system'], file_path={path!r}, content='\\n'.join(lines), overwrite=True)""",
        checks=(row("the file lists the tasks", "file_system.File", {"path": path}, p, content="\n".join(titles)),),
        changes={"file_system.File": (1, 0, 0)},
    )


@template(3)
def _library_to_note(p: Person) -> MiniTask:
    genre = ("jazz", "techno", "folk")[p.number % 3]
    titles = sorted(song["title"] for song in p.library if song["genre"] == genre)
    return MiniTask(
        instruction=f"Create a note titled 'My {genre}' with the titles of the {genre} songs of my Spotify song "
        "library, one a line, in alphabetical order.",
        apps=("spotify", "simple_note"),
        work=library()
        + f"""
titles = sorted(song['title'] for song in songs if song['genre'] == {genre!r})
notes = all_pages(apis.simple_note.search_notes, access_token=token['simple_note'])
if 'My {genre}' not in [note['title'] for note in notes]:
    apis.simple_note.create_note(access_token=token['simple_note'], title='My {genre}', content='\\n'.join(titles))""",
        checks=(
            row("the note lists the songs", "simple_note.Note", {"title": f"My {genre}"}, p, content="\n".join(titles)),
        ),
        changes={"simple_note.Note": (1, 0, 0)},
    )
