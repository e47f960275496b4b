"""Seeded generator of household games in the file format of ALFWorld.

A game is a pure function of its specification: equal on every machine, in every process and under every hash seed.
Rooms, objects, what fits where and what can be done with it are those of ALFWorld; no scene of ALFRED is used.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import decode_game
from agent_envs.envs.alfworld.generator_scenes import (
    SEEN_SCENES,
    UNSEEN_SCENES,
    Dice,
    Scene,
    Thing,
    build_scene,
    draw_id,
)
from agent_envs.envs.alfworld.generator_tables import (
    FITS,
    NUM_OTHERS,
    OPENABLE,
    PROPERTIES,
    ROOM_OBJECTS,
    ROOMS_OF_TASK,
    SENTENCES,
    SIZES,
    TASK_TYPES,
    TREATMENTS,
)
from agent_envs.errors import missing_extra, unknown_name
from agent_envs.tasks import write_atomically

GENERATOR_VERSION = 1
"""Raised whenever a specification gives another game."""

_MAX_PER_CLASS = 3
_TWO, _LOOK = "pick_two_obj_and_place", "look_at_obj_in_light"
# Types that the rules name, so that every problem must declare them.
_RULE_TYPES = ("ButterKnife", "Knife"), ("Fridge", "Microwave", "SinkBasin")


@dataclass(frozen=True, kw_only=True, slots=True)
class GameSpec:
    """What a game is generated from.

    Attributes:
        seed: Number of the game.
        task_type: One of the six types, as `pick_and_place_simple`.
        size: `full` (rooms as large as the official ones) or `small` (8-12 receptacles).
        unseen: Take a room that no training game uses.
    """

    seed: int
    task_type: str
    size: str = "full"
    unseen: bool = False

    def __post_init__(self) -> None:
        """Refuses unknown names.

        Raises:
            ValueError: Unknown task type or size, or a negative seed.
        """
        if self.task_type not in TASK_TYPES:
            raise unknown_name("task_type", self.task_type, TASK_TYPES)
        if self.size not in SIZES:
            raise unknown_name("size", self.size, SIZES)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an int >= 0, got {self.seed!r}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratedGame:
    """A generated game.

    Attributes:
        spec: What it was generated from.
        scene: Scene number.
        room: Kind of room.
        sentence: Task sentence without full stop.
        target: Class of the object of the goal.
        parent: Class of the receptacle of the goal, empty for the lamp task.
        toggle: Class of the lamp of the goal, empty for other tasks.
        problem: PDDL problem.
    """

    spec: GameSpec
    scene: int
    room: str
    sentence: str
    target: str
    parent: str
    toggle: str
    problem: str

    @property
    def name(self) -> str:
        """Folder of the game relative to its split, in the form of the official names."""
        folder = f"{self.spec.task_type}-{self.target}-None-{self.parent or self.toggle}-{self.scene}"
        return f"{folder}/trial_{self.spec.size}_{self.spec.seed:06d}"

    def content(self) -> bytes:
        """Returns the content of a game file that this package plays: problem and task sentence.

        The rules are not in it; for a file that the official engine loads too see `generate_games`.
        """
        grammar = json.dumps({"task": [{"rhs": f"Your task is to: {self.sentence}."}]})
        return _encode({"grammar": f'grammar :: """\n{grammar}\n"""\n', "pddl_problem": self.problem})


@lru_cache(1024)
def generate_game(spec: GameSpec) -> GeneratedGame:
    """Generates a game; the 1,024 used last are kept.

    The goal is not reached at the start, and an object, a receptacle that takes it and every appliance needed are
    there, so that the game can be won.
    """
    dice = Dice("game", spec.size, spec.task_type, int(spec.unseen), spec.seed)
    scene, target, parent, toggle = _draw_goal(dice, spec)
    things = [*scene.lamps, *_place_objects(dice, spec, scene, target, parent)]
    words = {"obj": target, "recep": parent, "toggle": toggle}
    template = dice.choose(SENTENCES[spec.task_type])
    return GeneratedGame(
        spec=spec,
        scene=scene.number,
        room=scene.room,
        sentence=template.format(**{key: word.lower() for key, word in words.items()}),
        target=target,
        parent=parent,
        toggle=toggle,
        problem=_problem(spec, scene, things, _goal(spec.task_type, target, parent, toggle)),
    )


def _draw_goal(dice: Dice, spec: GameSpec) -> tuple[Scene, str, str, str]:
    """Returns the room, the object class, and the receptacle class or the lamp class of the goal."""
    room = dice.choose(ROOMS_OF_TASK[spec.task_type])
    scene = build_scene(room, dice.choose(UNSEEN_SCENES if spec.unseen else SEEN_SCENES), spec.size)
    needed, appliance = TREATMENTS.get(spec.task_type, ("", ""))
    choices: dict[str, list[str]] = {}
    for target in ROOM_OBJECTS[room]:
        homes = [kind for kind in scene.classes if target in FITS[kind]]
        if needed and target not in PROPERTIES[needed]:
            continue
        # The object starts in a class other than the parent; a treated object is taken away from the appliance.
        parents = [kind for kind in homes if kind != appliance] if len(homes) > 1 else []
        if spec.task_type == _LOOK and homes:
            choices[target] = []
        elif parents:
            choices[target] = parents
    target = dice.choose(list(choices))
    if spec.task_type == _LOOK:
        return scene, target, "", dice.choose(scene.lamps).kind
    return scene, target, dice.choose(choices[target]), ""


def _place_objects(dice: Dice, spec: GameSpec, scene: Scene, target: str, parent: str) -> list[Thing]:
    """Puts the objects of the goal outside the parent class, and others anywhere they fit."""
    taken = {thing.id for thing in (*scene.receptacles, *scene.lamps)}

    def put(kind: str, avoid: str = "") -> Thing:
        home = dice.choose([home for home in scene.classes if kind in FITS[home] and home != avoid])
        holder = dice.choose([receptacle for receptacle in scene.receptacles if receptacle.kind == home])
        return Thing(kind=kind, id=draw_id(dice, kind, taken), place=holder.place, holder=holder.id)

    num_targets = (2 if spec.task_type == _TWO else 1) + dice.below(2)
    things = [put(target, avoid=parent) for _ in range(num_targets)]
    room_for = {
        kind: _MAX_PER_CLASS
        for kind in ROOM_OBJECTS[scene.room]
        if kind != target and any(kind in FITS[home] for home in scene.classes)
    }
    for _ in range(dice.between(*NUM_OTHERS[spec.size][scene.room])):
        kind = dice.choose([kind for kind, number in room_for.items() if number])
        room_for[kind] -= 1
        things.append(put(kind))
    return things


def _goal(task_type: str, target: str, parent: str, toggle: str) -> str:
    """Returns the goal expression of a task type."""
    if task_type == _LOOK:
        return (
            f"(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {toggle}Type)"
            " (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {target}Type) (holds ?a ?o))))"
        )
    placed = "(objectType {0} " + target + "Type) (receptacleType ?r " + parent + "Type) (inReceptacle {0} ?r)"
    if task_type == _TWO:
        second = f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) {placed.format('?o2')}))"
        return f"(and (exists (?r - receptacle) (exists (?o1 - object) (and {placed.format('?o1')} {second}))))"
    treated = {"cleanable": "isClean", "heatable": "isHot", "coolable": "isCool"}
    needed = TREATMENTS.get(task_type, ("", ""))[0]
    state = f"({needed} ?o) ({treated[needed]} ?o) " if needed else ""
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {state}{placed.format('?o')}))))"


def _problem(spec: GameSpec, scene: Scene, things: Sequence[Thing], goal: str) -> str:
    """Writes the PDDL problem."""
    object_types = sorted({thing.kind for thing in things} | {*_RULE_TYPES[0]})
    receptacle_types = sorted({*scene.classes, *_RULE_TYPES[1]})
    places = sorted({scene.start, *(receptacle.place for receptacle in scene.receptacles)})
    lines = [
        f"(define (problem plan_trial_{spec.size}_{spec.seed:06d})",
        "(:domain alfred)",
        "(:objects",
        "agent1 - agent",
        *(f"{kind}Type - otype" for kind in object_types),
        *(f"{kind}Type - rtype" for kind in receptacle_types),
        *(f"{thing.id} - object" for thing in things),
        *(f"{receptacle.id} - receptacle" for receptacle in scene.receptacles),
        *(f"{place} - location" for place in places),
        ")",
        "(:init",
    ]
    for receptacle in scene.receptacles:
        lines.append(f"(receptacleType {receptacle.id} {receptacle.kind}Type)")
        lines.append(f"(receptacleAtLocation {receptacle.id} {receptacle.place})")
        if receptacle.kind in OPENABLE:
            lines.append(f"(openable {receptacle.id})")
    for thing in things:
        lines.append(f"(objectType {thing.id} {thing.kind}Type)")
        lines.append(f"(inReceptacle {thing.id} {thing.holder})")
        lines.append(f"(objectAtLocation {thing.id} {thing.place})")
        lines.append(f"({'toggleable' if thing in scene.lamps else 'pickupable'} {thing.id})")
        lines.extend(f"({name} {thing.id})" for name, kinds in PROPERTIES.items() if thing.kind in kinds)
    for receptacle_type in receptacle_types:
        fitting = (kind for kind in object_types if kind in FITS[receptacle_type])
        lines.extend(f"(canContain {receptacle_type}Type {kind}Type)" for kind in fitting)
    lines += [f"(atLocation agent1 {scene.start})", ")", f"(:goal {goal})", ")"]
    return "\n".join(lines) + "\n"


# ---- splits -----------------------------------------------------------------------------------------------------

# Games of each type, in the order of TASK_TYPES: those of the official splits, so that a mean over all games weighs
# the types in the same way.
SPLIT_COUNTS: Mapping[str, tuple[int, ...]] = {
    "train": (790, 308, 650, 459, 533, 813),
    "valid_seen": (35, 13, 27, 16, 25, 24),
    "valid_unseen": (24, 18, 31, 23, 21, 17),
}
FIRST_SEED = {"train": 0, "valid_seen": 10_000, "valid_unseen": 20_000}


@lru_cache
def split_types(split: str) -> tuple[str, ...]:
    """Returns the task type of every index of a split: the types are spread evenly, so that any part is mixed alike."""
    counts = SPLIT_COUNTS[split]
    turns = [
        ((nth + 0.5) / count, type_) for type_, count in zip(TASK_TYPES, counts, strict=True) for nth in range(count)
    ]
    return tuple(type_ for _, type_ in sorted(turns))


def split_spec(split: str, index: int, size: str) -> GameSpec:
    """Returns the specification of a game of a fixed split."""
    return GameSpec(
        seed=FIRST_SEED[split] + index,
        task_type=split_types(split)[index],
        size=size,
        unseen=split == "valid_unseen",
    )


# ---- files ------------------------------------------------------------------------------------------------------


def generate_games(
    folder: str | os.PathLike[str], specs: Iterable[GameSpec], *, with_rules: bool = False
) -> list[Path]:
    """Writes games as `<folder>/<task folder>/<trial>/` with the three files of an official game.

    Each game is played to its win by the oracle first; the plan goes into the file as `walkthrough`.

    Args:
        folder: Folder to write into; made if missing. Give it to `data_dir=` to play the games.
        specs: The games, for example `[GameSpec(seed=s, task_type="pick_and_place_simple") for s in range(5)]`.
        with_rules: Put domain and grammar of the installed alfworld into the game files, so that the official engine
            loads them as they are.

    Returns:
        Paths of the `game.tw-pddl` files, in the order of the specifications.

    Raises:
        DependencyNotInstalled: `with_rules=True` without the package alfworld.
    """
    domain, grammar = official_rules() if with_rules else ("", "")
    paths = []
    for spec in specs:
        game = generate_game(spec)
        engine = Engine(decode_game(game.content(), game.name))
        plan = engine.oracle()
        content = json.loads(game.content())
        if with_rules:
            content |= {"pddl_domain": domain, "grammar": grammar.replace("UNKNOWN GOAL", game.sentence)}
        content |= {"solvable": True, "walkthrough": plan}
        target = Path(folder) / game.name
        write_atomically(target / "initial_state.pddl", game.problem)
        write_atomically(target / "traj_data.json", json.dumps(_trajectory(game), indent=4) + "\n")
        write_atomically(target / "game.tw-pddl", _encode(content).decode())
        paths.append(target / "game.tw-pddl")
    return paths


def _encode(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _trajectory(game: GeneratedGame) -> dict[str, object]:
    """Returns what the official readers take from `traj_data.json`."""
    return {
        "task_id": game.name.rpartition("/")[2],
        "task_type": game.spec.task_type,
        "pddl_params": {
            "object_target": game.target,
            "parent_target": game.parent,
            "toggle_target": game.toggle,
            "mrecep_target": "",
            "object_sliced": False,
        },
        "scene": {"floor_plan": game.room, "scene_num": game.scene},
        "turk_annotations": {"anns": [{"task_desc": f"{game.sentence}."}]},
    }


def official_rules() -> tuple[str, str]:
    """Returns the texts of the domain and of the grammar of the installed alfworld, without importing it.

    Raises:
        DependencyNotInstalled: alfworld is not installed.
    """
    found = importlib.util.find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        raise missing_extra("alfworld", "alfworld")
    data = Path(found.submodule_search_locations[0]) / "data"
    return (data / "alfred.pddl").read_text(encoding="utf-8"), (data / "alfred.twl2").read_text(encoding="utf-8")
