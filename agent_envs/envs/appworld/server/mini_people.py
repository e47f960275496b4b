"""The people of the mini world and what their apps hold. Plain data from fixed seeds; standard library only."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

APPS = ("simple_note", "todoist", "phone", "file_system", "venmo", "spotify")
"""The apps that tasks use."""

_SUPERVISORS = (("Ada", "Reed"), ("Bruno", "Klein"), ("Carla", "Moreau"), ("Deniz", "Aydin"))
_FRIENDS = (
    ("Erik", "Lund"),
    ("Farah", "Nasser"),
    ("Gita", "Rao"),
    ("Hugo", "Brandt"),
    ("Ines", "Costa"),
    ("Jonas", "Weber"),
    ("Kira", "Novak"),
    ("Liam", "Byrne"),
)
_TAGS = ("home", "work", "travel", "recipes")
_NOTES = (
    ("Packing list", "rain jacket\nsun hat\npassport\nphone charger"),
    ("Weekend market", "tomatoes\nbasil\ngoat cheese\nbread"),
    ("Garage clean-up", "sort the screws\nsell the old bike\nfix the shelf"),
    ("Book club", "finish chapter six\nbring lemonade"),
    ("Winter garden", "cover the roses\nempty the rain barrel\nsharpen the shears"),
    ("Pancake batter", "flour\nmilk\ntwo eggs\na pinch of salt"),
    ("Office move", "label the boxes\nreturn the keys\nthank the movers"),
    ("Birthday ideas", "kite\nboard game\nwatercolours"),
    ("Train trip", "book seats\ndownload maps\npack sandwiches"),
    ("Lentil soup", "red lentils\ncarrots\ncumin"),
)
_ALARMS = ("Morning run", "Tea timer", "Stand-up meeting", "Water the plants", "Piano practice", "Bedtime")
_PROJECTS = ("House", "Newsletter", "Allotment")
_TODO = (
    "Paint the fence",
    "Order envelopes",
    "Repair the tap",
    "Draft the greeting",
    "Plant the beans",
    "Compare printers",
    "Clean the gutters",
    "Choose the photos",
    "Build a compost bin",
    "Measure the windows",
    "Proofread page two",
    "Buy new gloves",
)
_FILES = (
    ("documents/meter_reading.txt", "Meter 4471 shows {n} units\nread on Monday"),
    ("documents/parking.txt", "Space {n} on level two\nvalid until autumn"),
    ("documents/old/draft.txt", "Version {n}\nnot for sending"),
    ("documents/old/quote.csv", "item,price\nladder,{n}"),
    ("photos/list.txt", "{n} pictures of the lake"),
    ("downloads/manual.txt", "Order number {n}\nkeep dry"),
)
_GENRES = ("folk", "jazz", "techno")
_SONGS = (
    "Paper Lanterns",
    "Low Tide Radio",
    "Seven Bridges",
    "Copper Rain",
    "Night Ferry",
    "Salt and Thyme",
    "Glass Staircase",
    "Slow Compass",
    "Harbour Lights Out",
    "Quiet Engines",
    "Marble Garden",
    "Second Winter",
    "Tin Roof Waltz",
    "Violet Hour",
    "Dust on Strings",
    "Long Way Down River",
)
_ARTISTS = ("The Lamplighters", "Mira Sol", "Concrete Choir")
_REASONS = ("cinema tickets", "pizza", "museum entry", "bus fare", "concert", "groceries")
_TEXTS = ("Are you free on Friday?", "The parcel has arrived.", "Call me when you can.", "I found your umbrella.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Friend:
    """Someone a supervisor knows."""

    first_name: str
    last_name: str
    email: str
    phone_number: str
    birthday: str
    relationship: str = ""

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A supervisor with everything in the apps."""

    number: int
    me: Friend
    passwords: dict[str, str]
    """App to password."""
    friends: tuple[Friend, ...]
    """The contacts; all of them have accounts."""
    notes: list[dict[str, Any]] = field(default_factory=list)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    projects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Absolute path to content."""
    songs: list[str] = field(default_factory=list)
    """Titles in the library."""
    payments: list[dict[str, Any]] = field(default_factory=list)
    texts: list[tuple[Friend, str]] = field(default_factory=list)
    """Who sent it, and what."""
    debts: list[tuple[Friend, int]] = field(default_factory=list)
    """What the note 'Lake trip' says."""
    users: dict[str, dict[str, int]] = field(default_factory=dict)
    """App to email to the number of the account; known once the databases are built."""

    @property
    def home(self) -> str:
        """The home folder of the file system app."""
        return f"/home/{self.me.first_name.lower()}/"

    @property
    def ids(self) -> dict[str, int]:
        """App to the number of this person's account."""
        return self.ids_of(self.me)

    def ids_of(self, friend: Friend) -> dict[str, int]:
        """App to the number of somebody's account."""
        return {app: numbers[friend.email] for app, numbers in self.users.items() if friend.email in numbers}

    @property
    def library(self) -> list[dict[str, Any]]:
        """Songs of the library as in :func:`catalogue`."""
        return [song for song in catalogue() if song["title"] in self.songs]


def _friend(names: tuple[str, str], number: int, relationship: str = "") -> Friend:
    first, last = names
    return Friend(
        first_name=first,
        last_name=last,
        email=f"{first}.{last}@example.com".lower(),
        phone_number=f"555{number:07d}",
        birthday=f"{1970 + (number * 7) % 35}-{1 + number % 12:02d}-{1 + (number * 5) % 28:02d}",
        relationship=relationship,
    )


def all_friends() -> list[Friend]:
    """Return everybody who is not a supervisor."""
    return [_friend(names, 1001 + 37 * number) for number, names in enumerate(_FRIENDS)]


def catalogue() -> list[dict[str, Any]]:
    """Return the songs of the music app; durations differ from each other."""
    rng = random.Random("mini world songs")
    durations = rng.sample(range(120, 420), len(_SONGS))
    return [
        {
            "id": number + 1,
            "title": title,
            "artist": _ARTISTS[number % len(_ARTISTS)],
            "genre": _GENRES[number % len(_GENRES)],
            "duration": durations[number],
        }
        for number, title in enumerate(_SONGS)
    ]


def make_people() -> list[Person]:
    """Return the supervisors, always the same."""
    return [_make_person(number) for number in range(len(_SUPERVISORS))]


def _make_person(number: int) -> Person:
    rng = random.Random(f"mini world person {number}")
    friends = rng.sample(_FRIENDS, 5)
    kinds = ["friend", "friend", "coworker", "coworker", "sibling"]
    known = {friend.first_name: friend for friend in all_friends()}
    people = []
    for names, kind in zip(friends, kinds, strict=True):
        base = known[names[0]]
        people.append(_friend(names, int(base.phone_number[3:]), kind))
    person = Person(
        number=number,
        me=_friend(_SUPERVISORS[number], 11 + 13 * number),
        passwords={app: f"{app[:3]}-{rng.randrange(10**6, 10**7)}" for app in APPS},
        friends=tuple(people),
    )
    _fill(person, rng)
    return person


def _fill(person: Person, rng: random.Random) -> None:
    for place, (title, content) in enumerate(rng.sample(_NOTES, 7)):
        tag = _TAGS[place % 3]
        person.notes.append({"title": title, "content": content, "tags": [tag], "pinned": place in (0, 3, 4)})
    person.debts.extend((friend, rng.randrange(5, 60)) for friend in person.friends[1:4])
    owed = "\n".join(f"{friend.name}: {amount}" for friend, amount in person.debts)
    person.notes.append({"title": "Lake trip", "content": owed, "tags": ["travel"], "pinned": False})
    for place, label in enumerate(rng.sample(_ALARMS, 4)):
        time = f"{rng.randrange(5, 22):02d}:{rng.randrange(0, 60, 5):02d}"
        person.alarms.append({"label": label, "time": time, "enabled": place != 3, "snooze_minutes": 10})
    todo = rng.sample(_TODO, 12)
    for place, project in enumerate(_PROJECTS):
        person.projects[project] = [
            {"title": title, "priority": ("high", "low", "high", "medium")[at], "is_completed": at == 3}
            for at, title in enumerate(todo[4 * place : 4 * place + 4])
        ]
    for path, content in _FILES:
        person.files[person.home + path] = content.format(n=rng.randrange(100, 999))
    person.songs.extend(rng.sample(_SONGS, 9))
    for _ in range(7):
        amount = rng.randrange(4, 40)
        person.payments.append(
            {"to": rng.choice(person.friends[:3]), "amount": amount, "description": rng.choice(_REASONS)}
        )
    for friend in person.friends:
        for text in rng.sample(_TEXTS, rng.randrange(1, 4)):
            person.texts.append((friend, text))
