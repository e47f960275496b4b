"""Rooms of the generated games: each scene number is one room, with fixed receptacles at fixed places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from agent_envs.envs.alfworld.generator_tables import FIRST_SCENE, LAMP_HOSTS, LAMPS, LAYOUTS
from agent_envs.tasks import derive_seed

T = TypeVar("T")

# Scene numbers as in ALFWorld: the first six rooms of a kind are kept for valid_unseen.
UNSEEN_SCENES = range(1, 7)
SEEN_SCENES = range(7, 31)
_BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}
# Receptacles that stand so close together that one place serves several.
_CLOSE_CLASSES = ("Cabinet", "Drawer", "Shelf", "StoveBurner")
_SHARED_PLACE_SHARE = 0.25
_ROOMS_WITH_LAMPS = ("bedroom", "livingroom")


class Dice:
    """Draws built on `random.Random.random` alone, the one method whose sequence Python promises to keep.

    Args:
        parts: What the sequence depends on.
    """

    def __init__(self, *parts: int | str) -> None:
        self._random = random.Random(derive_seed(0, "alfworld", *parts)).random

    def below(self, bound: int) -> int:
        """Returns an int in [0, bound)."""
        return int(self._random() * bound)

    def between(self, least: int, most: int) -> int:
        """Returns an int in [least, most]."""
        return least + self.below(most - least + 1)

    def choose(self, options: Sequence[T]) -> T:
        """Returns one of the options."""
        return options[self.below(len(options))]

    def chance(self, share: float) -> bool:
        """Returns True with probability `share`."""
        return self._random() < share


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    """An object or receptacle.

    Attributes:
        kind: Class, as `CounterTop`.
        id: Id in the PDDL problem.
        place: Location id.
        holder: Id of the receptacle it lies in, empty for a receptacle.
    """

    kind: str
    id: str
    place: str
    holder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """A room without the objects of a game.

    Attributes:
        number: Scene number, unique over all kinds of rooms.
        room: Kind of room.
        start: Location at which the agent starts; no receptacle is there.
        receptacles: The receptacles.
        lamps: The lamps, each in a receptacle.
    """

    number: int
    room: str
    start: str
    receptacles: tuple[Thing, ...]
    lamps: tuple[Thing, ...]

    @property
    def classes(self) -> list[str]:
        """Receptacle classes of the room, sorted."""
        return sorted({receptacle.kind for receptacle in self.receptacles})


@lru_cache(256)
def build_scene(room: str, offset: int, size: str) -> Scene:
    """Builds a room; equal arguments give equal rooms everywhere.

    Args:
        room: `kitchen`, `livingroom`, `bedroom` or `bathroom`.
        offset: Number among the rooms of this kind, in `UNSEEN_SCENES` or `SEEN_SCENES`.
        size: `full` or `small`.
    """
    number = FIRST_SCENE[room] + offset
    dice = Dice("scene", size, number)
    layout = LAYOUTS[size, room, "unseen" if offset in UNSEEN_SCENES else "seen"]
    start = "loc_bar_0_bar_0_bar_0_bar_30"
    places, ids = {start}, set[str]()
    receptacles: list[Thing] = []
    for kind, (least, most) in layout.items():
        for nth in range(dice.between(least, most)):
            shared = size == "full" and nth > 0 and kind in _CLOSE_CLASSES and dice.chance(_SHARED_PLACE_SHARE)
            place = receptacles[-1].place if shared else draw_place(dice, places)
            receptacles.append(Thing(kind=kind, id=draw_id(dice, kind, ids), place=place))
    lamps = []
    if room in _ROOMS_WITH_LAMPS:
        hosts = [receptacle for receptacle in receptacles if receptacle.kind in LAMP_HOSTS]
        for kind in LAMPS if dice.chance(0.5) else (dice.choose(LAMPS),):
            host = dice.choose(hosts)
            lamps.append(Thing(kind=kind, id=draw_id(dice, kind, ids), place=host.place, holder=host.id))
    return Scene(number=number, room=room, start=start, receptacles=tuple(receptacles), lamps=tuple(lamps))


def draw_id(dice: Dice, kind: str, taken: set[str]) -> str:
    """Returns a new id in the form of ALFWorld: the class and three coordinates in metres, mangled for PDDL."""
    while True:
        numbers = (f"{dice.choose('+-')}{dice.below(4):02d}.{dice.below(100):02d}" for _ in range(3))
        words = [_BASINS.get(kind, kind), *numbers, *([kind] if kind in _BASINS else [])]
        found = _mangle("|".join(words))
        if found not in taken:
            taken.add(found)
            return found


def draw_place(dice: Dice, taken: set[str]) -> str:
    """Returns a new location id: grid coordinates, direction in quarter turns, and angle of sight in degrees."""
    while True:
        parts = (dice.between(-9, 9), dice.between(-9, 9), dice.below(4), dice.choose((-30, 0, 15, 30, 45, 60)))
        found = _mangle("|".join(["loc", *map(str, parts)]))
        if found not in taken:
            taken.add(found)
            return found


def _mangle(text: str) -> str:
    for sign, word in (("|", "_bar_"), ("+", "_plus_"), ("-", "_minus_"), (".", "_dot_")):
        text = text.replace(sign, word)
    return text
