"""Generated household games: winnable, the same everywhere, and true to the tables of ALFWorld."""

import importlib.util
import inspect
import json
import os
import random
import subprocess
import sys
import warnings
from collections import Counter

import pytest
from gymnasium.error import DependencyNotInstalled

from agent_envs.envs.alfworld import generator_tables as tables
from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import decode_game, load_game
from agent_envs.envs.alfworld.generator import (
    FIRST_SEED,
    SPLIT_COUNTS,
    GameSpec,
    generate_game,
    generate_games,
    split_spec,
    split_types,
)
from agent_envs.envs.alfworld.generator_scenes import SEEN_SCENES, UNSEEN_SCENES, build_scene

SOME = [
    GameSpec(seed=seed, task_type=kind, size=size)
    for kind in tables.TASK_TYPES
    for size in tables.SIZES
    for seed in (3, 4)
]
# One digest over the game files of each split's first 12 games and its last; a new value needs a new GENERATOR_VERSION.
GOLDEN = {
    "train full": "8cb5a71c312ae60f",
    "train small": "38c2509f79408f18",
    "valid_seen full": "b8ea05f311984582",
    "valid_seen small": "3918759c0a14b9c8",
    "valid_unseen full": "838e8d5e925ac189",
    "valid_unseen small": "a3877e703d9a1f0e",
}


def digests():
    """Return the digests of GOLDEN; a subprocess runs this function's text."""
    import hashlib

    from agent_envs.envs.alfworld.generator import SPLIT_COUNTS, generate_game, split_spec

    found = {}
    for split, counts in SPLIT_COUNTS.items():
        for size in ("full", "small"):
            games = [generate_game(split_spec(split, index, size)) for index in (*range(12), sum(counts) - 1)]
            blob = b"".join(game.name.encode() + game.content() for game in games)
            found[f"{split} {size}"] = hashlib.sha256(blob).hexdigest()[:16]
    return found


def engine_of(spec):
    game = generate_game(spec)
    return Engine(decode_game(game.content(), game.name))


def things(game):
    """Return {id: class} and {object id: receptacle id} of a generated game."""
    rows = [line.strip("()").split() for line in game.problem.split("(:init")[1].splitlines()]
    kinds = {row[1]: row[2].removesuffix("Type") for row in rows if row and row[0] in ("objectType", "receptacleType")}
    return kinds, {row[1]: row[2] for row in rows if row and row[0] == "inReceptacle"}


# ---------------------------------------------------------------------- winnable


@pytest.mark.parametrize("size", tables.SIZES)
@pytest.mark.parametrize("task_type", tables.TASK_TYPES)
def test_oracle_wins_fifty_seeds_of_each_type(task_type, size):
    for seed in range(50):
        engine = engine_of(GameSpec(seed=seed, task_type=task_type, size=size, unseen=seed % 3 == 0))
        assert not engine.won
        plan = engine.oracle()
        assert 3 <= len(plan) <= 20
        assert [engine.step(command).won for command in plan].index(True) == len(plan) - 1


@pytest.mark.slow
@pytest.mark.parametrize("size", tables.SIZES)
@pytest.mark.parametrize("split", SPLIT_COUNTS)
def test_oracle_wins_every_shipped_game(split, size):
    names = set()
    for index in range(sum(SPLIT_COUNTS[split])):
        game = generate_game(split_spec(split, index, size))
        engine = Engine(decode_game(game.content(), game.name))
        won = [engine.step(command).won for command in engine.oracle()]
        assert won and won[-1] and not any(won[:-1]), game.name
        names.add(game.name)
    assert len(names) == sum(SPLIT_COUNTS[split])


@pytest.mark.parametrize("spec", SOME, ids=str)
def test_objects_lie_where_they_fit_and_the_target_outside_its_goal(spec):
    game = generate_game(spec)
    kinds, holders = things(game)
    targets = [item for item in holders if kinds[item] == game.target]
    assert len(targets) >= (2 if spec.task_type == "pick_two_obj_and_place" else 1)
    for item, holder in holders.items():
        if kinds[item] in tables.LAMPS:
            assert kinds[holder] in tables.LAMP_HOSTS
        else:
            assert kinds[item] in tables.FITS[kinds[holder]]
            assert kinds[item] in tables.ROOM_OBJECTS[game.room]
    assert not any(kind.endswith("Sliced") for kind in kinds.values())
    assert all(kinds[holders[item]] != game.parent for item in targets)
    if game.parent:
        assert game.target in tables.FITS[game.parent]
    assert game.room in tables.ROOMS_OF_TASK[spec.task_type]
    assert max(Counter(kinds[item] for item in holders).values()) <= 3


# ---------------------------------------------------------------------- rooms


@pytest.mark.parametrize("room", tables.FIRST_SCENE)
@pytest.mark.parametrize("size", tables.SIZES)
def test_unseen_rooms_are_rooms_no_training_game_has(size, room):
    def counts(offset):
        return frozenset(Counter(r.kind for r in build_scene(room, offset, size).receptacles).items())

    seen, unseen = {counts(offset) for offset in SEEN_SCENES}, {counts(offset) for offset in UNSEEN_SCENES}
    assert not seen & unseen
    most = Counter()
    for room_counts in seen:
        most |= Counter(dict(room_counts))
    assert all(any(number > most[kind] for kind, number in room_counts) for room_counts in unseen)


@pytest.mark.parametrize("room", tables.FIRST_SCENE)
def test_small_rooms_have_8_to_12_receptacles_each_at_its_own_place(room):
    for offset in (*UNSEEN_SCENES, *SEEN_SCENES):
        scene = build_scene(room, offset, "small")
        assert 8 <= len(scene.receptacles) <= 12
        assert len({receptacle.place for receptacle in scene.receptacles} | {scene.start}) == len(scene.receptacles) + 1


def test_full_rooms_have_shared_places_as_official_ones_do():
    scenes = [build_scene("kitchen", offset, "full") for offset in SEEN_SCENES]
    shared = [len(scene.receptacles) - len({r.place for r in scene.receptacles}) for scene in scenes]
    assert sum(number > 0 for number in shared) > len(scenes) / 2
    assert all(20 <= len(scene.receptacles) <= 42 for scene in scenes)


# ---------------------------------------------------------------------- the same everywhere


def test_splits_are_fixed():
    assert digests() == GOLDEN


def test_a3_games_are_equal_in_a_process_with_another_hash_seed():
    code = f"import json\n{inspect.getsource(digests)}\nprint(json.dumps(digests()))"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout) == GOLDEN


def test_generating_leaves_the_global_generator_alone():
    random.seed(5)
    before = random.getstate()
    generate_game.__wrapped__(SOME[0])
    build_scene.__wrapped__("kitchen", 9, "full")
    assert random.getstate() == before


def test_arguments_that_name_another_game_give_another_game():
    base = GameSpec(seed=1, task_type="pick_and_place_simple")
    others = [
        GameSpec(seed=2, task_type="pick_and_place_simple"),
        GameSpec(seed=1, task_type="pick_two_obj_and_place"),
        GameSpec(seed=1, task_type="pick_and_place_simple", size="small"),
        GameSpec(seed=1, task_type="pick_and_place_simple", unseen=True),
    ]
    assert len({generate_game(spec).problem for spec in (base, *others)}) == 5


@pytest.mark.parametrize(("split", "total"), [("train", 3553), ("valid_seen", 140), ("valid_unseen", 134)])
def test_splits_have_the_official_numbers_of_each_type_in_an_even_mixture(split, total):
    types = split_types(split)
    assert len(types) == total
    assert tuple(Counter(types)[kind] for kind in tables.TASK_TYPES) == SPLIT_COUNTS[split]
    assert set(types[:16]) == set(tables.TASK_TYPES)
    specs = [split_spec(split, index, "full") for index in range(total)]
    assert [spec.seed for spec in specs] == list(range(FIRST_SEED[split], FIRST_SEED[split] + total))
    assert {spec.unseen for spec in specs} == {split == "valid_unseen"}


# ---------------------------------------------------------------------- files


def test_written_games_have_the_official_files_and_win_by_their_walkthrough(tmp_path):
    specs = [GameSpec(seed=2, task_type=kind, size="small") for kind in tables.TASK_TYPES]
    paths = generate_games(tmp_path, specs)
    assert len(set(paths)) == 6
    for spec, path in zip(specs, paths, strict=True):
        assert sorted(file.name for file in path.parent.iterdir()) == [
            "game.tw-pddl",
            "initial_state.pddl",
            "traj_data.json",
        ]
        content = json.loads(path.read_bytes())
        assert content["solvable"] is True
        assert content["pddl_problem"] == (path.parent / "initial_state.pddl").read_text()
        trajectory = json.loads((path.parent / "traj_data.json").read_bytes())
        parameters = trajectory["pddl_params"]
        assert trajectory["task_type"] == spec.task_type
        goal = parameters["parent_target"] or parameters["toggle_target"]
        scene = trajectory["scene"]["scene_num"]
        assert path.parent.parent.name == f"{spec.task_type}-{parameters['object_target']}-None-{goal}-{scene}"
        game = load_game(path)
        assert game.task == generate_game(spec).sentence
        assert trajectory["turk_annotations"]["anns"][0]["task_desc"] == f"{game.task}."
        engine = Engine(game)
        assert [engine.step(command).won for command in content["walkthrough"]][-1]


def test_writing_twice_gives_equal_bytes(tmp_path):
    first, second = (generate_games(tmp_path / name, SOME[:3]) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_rules_of_a_package_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "agent-envs\[alfworld\]"'):
        generate_games(tmp_path, SOME[:1], with_rules=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"task_type": "pick_and_place"}, "Did you mean 'pick_and_place_simple'"),
        ({"size": "smal"}, "Did you mean 'small'"),
        ({"seed": -1}, "seed must be an int >= 0, got -1"),
        ({"seed": True}, "seed must be an int >= 0, got True"),
    ],
)
def test_bad_specifications_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        GameSpec(**{"seed": 1, "task_type": "pick_and_place_simple", **arguments})


# ---------------------------------------------------------------------- against the official package


@pytest.fixture
def alfworld(monkeypatch, tmp_path):
    """The official package; its import must not write into the home folder."""
    pytest.importorskip("alfworld", reason="alfworld is not installed (extra alfworld)")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))


def test_tables_are_those_of_the_official_package(alfworld):
    from alfworld.gen import constants
    from alfworld.gen.goal_library import gdict

    for receptacle, objects in tables.FITS.items():
        official = {
            kind for kind in constants.VAL_RECEPTACLE_OBJECTS.get(receptacle, ()) if not kind.endswith("Sliced")
        }
        assert set(objects) == official, receptacle
    for name, key in (
        ("heatable", "Heatable"),
        ("coolable", "Coolable"),
        ("cleanable", "Cleanable"),
        ("sliceable", "Sliceable"),
    ):
        official = {kind for kind in constants.VAL_ACTION_OBJECTS[key] if not kind.endswith("Sliced")}
        assert set(tables.PROPERTIES[name]) == official, name
    assert set(tables.LAMPS) == set(constants.VAL_ACTION_OBJECTS["Toggleable"])
    assert set(tables.OPENABLE) == set(constants.OPENABLE_CLASS_LIST) - {"Box"}
    assert set(tables.MOVABLE_RECEPTACLES) == set(constants.MOVABLE_RECEPTACLES)
    for task_type, sentences in tables.SENTENCES.items():
        assert list(sentences) == gdict[task_type]["templates"]


def test_official_engine_loads_the_files_and_wins(alfworld, tmp_path):
    pytest.importorskip("textworld", reason="textworld is not installed (extra alfworld)")
    specs = [GameSpec(seed=6, task_type=kind, size="small") for kind in tables.TASK_TYPES[:2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

        for path in generate_games(tmp_path, specs, with_rules=True):
            wanted = textworld.EnvInfos(won=True, admissible_commands=True)
            env = textworld.start(str(path), wanted, wrappers=[AlfredDemangler(shuffle=False)])
            state, engine = env.reset(), Engine(load_game(path))
            assert state.feedback == engine.reset()
            for command in json.loads(path.read_bytes())["walkthrough"]:
                state, _, _ = env.step(command)
                assert state.feedback == engine.step(command).feedback
            assert state["won"] and engine.won
            env.close()
