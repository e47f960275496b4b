"""Game files of ALFWorld: loading, names, sentences, damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from alfworld_rooms import EPISODES, KITCHEN, MUG_ON_SHELF, PLACE_GOAL, make_problem

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import GameFileError, build_game, load_game


def write_game(path: Path, **content: Any) -> Path:
    data = {"pddl_problem": make_problem(), "grammar": '{"rhs": "Your task is to: put a mug in shelf."}'} | content
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_loader_takes_paths_and_bytes(tmp_path: Path) -> None:
    path = write_game(tmp_path / "game.tw-pddl", walkthrough=None)
    game = load_game(path)
    assert game.task == "put a mug in shelf"
    assert load_game(str(path)) is game
    assert load_game(path, "0.3") is not game
    assert load_game(path.read_bytes()).digest == game.digest
    assert Engine(game).reset().endswith("\n\nYour task is to: put a mug in shelf.")


def test_loader_notices_a_changed_file(tmp_path: Path) -> None:
    path = write_game(tmp_path / "game.tw-pddl")
    load_game(path)
    write_game(path, grammar='"Your task is to: put some mug on shelf."')
    assert load_game(path).task == "put some mug on shelf"


def test_the_last_full_stop_ends_the_sentence(tmp_path: Path) -> None:
    text = '"Your task is to: get 2.5 mugs, don\'t ask. Caf\\u00e9 {x} \\"now\\"."'
    assert load_game(write_game(tmp_path / "g", grammar=text)).task == 'get 2.5 mugs, don\'t ask. Café {x} "now"'


@pytest.mark.parametrize(
    ("goal", "sentence"),
    [
        (MUG_ON_SHELF, "put a mug in shelf"),
        (
            PLACE_GOAL.format(facts="(objectType ?o MugType) (receptacleType ?r DeskType) (isCool ?o) (coolable ?o)"),
            "put a cool mug in desk",
        ),
        ("(exists (?a - agent ?o - object) (holds ?a ?o))", "UNKNOWN GOAL"),
    ],
)
def test_plain_problem_files_get_a_sentence(tmp_path: Path, goal: str, sentence: str) -> None:
    path = tmp_path / "initial_state.pddl"
    path.write_text("; a comment (\n" + make_problem(goal), encoding="utf-8")
    assert load_game(path).task == sentence


@pytest.mark.parametrize("seed", range(6))
def test_sentences_fit_the_recorded_tasks(seed: int) -> None:
    """Games without sentence get one that names the classes of the recorded sentence, in its order."""
    record = EPISODES[seed]
    words = [word for word in build_game(record["pddl_problem"]).task.split() if word in record["task"].split()]
    assert len([word for word in words if len(word) > 2]) >= 2


def test_names_count_down_in_id_order() -> None:
    extra = "(receptacleType Sink_bar_1_bar_SinkBasin DeskType) (receptacleType Sink_bar_2 DeskType) (openable Odd)"
    names = build_game(make_problem(init=KITCHEN.replace("Desk_bar_1 loc", "Desk_bar_1 loc") + extra)).names
    assert [names[f"loc_bar_{number}"] for number in range(5)] == ["loc 5", "loc 4", "loc 3", "loc 2", "loc 1"]
    assert names["sink_bar_1_bar_sinkbasin"] == "sinkbasin 1"
    assert names["sink_bar_2"] == "sink 1"
    assert names["odd"] == "odd "


def problem_of(goal: str = MUG_ON_SHELF, init: str = KITCHEN) -> bytes:
    return json.dumps({"pddl_problem": make_problem(goal, init)}).encode()


UNREACHABLE = PLACE_GOAL.format(facts="(objectType ?o BookType) (receptacleType ?r ShelfType)")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected one expression"),
        (b"{", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"\xff\xfe{}", "damaged"),
        (b"[]", "'pddl_problem'"),
        (b'{"pddl_problem": 3}', "'pddl_problem'"),
        (b'{"grammar": ""}', "'pddl_problem'"),
        (b'{"pddl_problem": "(define (problem p)"}', "never closed"),
        (b'{"pddl_problem": "(define))"}', "without its"),
        (b'{"pddl_problem": "hello"}', "does not start"),
        (b'{"pddl_problem": "(define (:objects) (:goal (and)))"}', "no :init"),
        (b'{"pddl_problem": "(define (:objects) (:init))"}', "no :goal"),
        (b'{"pddl_problem": "' + b"(" * 5000 + b'"}', "nested"),
        (problem_of()[:-20] + b'"}', "never closed"),
        (problem_of(init=KITCHEN + "(opened)"), "takes 1"),
        (problem_of(init=KITCHEN + "(not (opened Desk_bar_1))"), "no plain fact"),
        (problem_of(init=KITCHEN + "stray"), "no fact"),
        (problem_of(init=KITCHEN.replace("(atLocation agent1 loc_bar_0)", "")), "atLocation"),
        (problem_of(init=KITCHEN + "(atLocation agent1 loc_bar_1)"), "atLocation"),
        (problem_of(init=KITCHEN + "(holds agent1 Mug_bar_1)"), "holdsAny"),
        (problem_of().replace(b"Mug_bar_1 - object", b""), "does not declare"),
        (problem_of(goal=""), "unknown form"),
        (problem_of(goal="(forall (?o - object) (isClean ?o))"), "unknown form"),
        (problem_of(goal="(not (isClean Mug_bar_1))"), "unknown form"),
        (problem_of(goal="(isClean ?o)"), "outside its quantifier"),
        (problem_of(goal="(exists (?o - object) (isClean ?o ?o))"), "takes 1"),
        (problem_of(goal="(exists (?o ?p - object) (and (holds agent1 ?o) (not (= ?o ?p))))"), "in no fact"),
        (problem_of(goal=UNREACHABLE), "cannot be reached"),
        (problem_of(goal="(exists (?o - object) (isHot ?o))"), "cannot be reached"),
        (problem_of(goal="(exists (?o - object) (isSliced ?o))"), "cannot be reached"),
        (problem_of(goal="(opened Desk_bar_1)"), "cannot be reached"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "broken.tw-pddl"
    path.write_bytes(data)
    with pytest.raises(GameFileError, match=reason) as caught:
        load_game(path)
    assert str(path) in str(caught.value)


def test_costs_and_unknown_facts_are_no_obstacle() -> None:
    init = KITCHEN + "(= (total-cost) 0) (= cost 3) (wasInReceptacle Mug_bar_1 Desk_bar_1)"
    assert Engine(build_game(make_problem(init=init))).oracle()


def test_goals_true_at_the_start_load() -> None:
    engine = Engine(build_game(make_problem(PLACE_GOAL.format(facts="(objectType ?o MugType)"))))
    assert engine.won
    assert engine.oracle() == []


def test_missing_file_and_unknown_grammar(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_game(tmp_path / "nowhere.tw-pddl")
    with pytest.raises(ValueError, match=r"Unknown grammar '0.2'. Grammars: 0.4, 0.3"):
        load_game(write_game(tmp_path / "g"), "0.2")
