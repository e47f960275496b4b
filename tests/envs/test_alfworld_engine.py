"""The native ALFWorld engine: recorded games, oracle, rules."""

from __future__ import annotations

import random
from typing import Any

import pytest
from alfworld_rooms import (
    EPISODES,
    GOLDEN_GAMES,
    GOLDEN_NAMES,
    KITCHEN,
    REAL,
    REAL_FILES,
    golden_game,
    make_problem,
    random_walk,
)

from agent_envs.envs.alfworld.engine import REFUSED, Engine
from agent_envs.envs.alfworld.gamefile import build_game, load_game
from agent_envs.envs.alfworld.grammar_texts import enumerate_items
from agent_envs.envs.alfworld.oracle import OracleError

# ---- recorded games ------------------------------------------------------------------------------


def test_recorded_games_are_complete() -> None:
    steps = [step for game in GOLDEN_GAMES for walk in game["walks"].values() for step in walk]
    assert (len(GOLDEN_GAMES), len(steps)) == (71, 5288)
    assert sum(step["feedback"] == REFUSED for step in steps) == 907


@pytest.mark.parametrize("record", GOLDEN_GAMES, ids=GOLDEN_NAMES)
def test_recorded_games_are_repeated_exactly(record: dict[str, Any]) -> None:
    engine = Engine(golden_game(record))
    for name, steps in record["walks"].items():
        for number, step in enumerate(steps):
            seen: dict[str, Any] = {"cmd": step["cmd"], "score": None, "done": None}
            if step["cmd"] is None:
                seen["feedback"] = engine.reset()
            else:
                result = engine.step(step["cmd"])
                seen |= {"feedback": result.feedback, "score": result.score, "done": result.done}
                assert result.won == engine.won
                assert result.admitted == (step["feedback"] != REFUSED)
            seen |= {"adm": engine.admissible(), "won": engine.won, "facts": engine.facts()}
            assert seen == step, f"walk {name}, step {number}"


@pytest.mark.parametrize("record", GOLDEN_GAMES, ids=GOLDEN_NAMES)
def test_oracle_wins_recorded_games(record: dict[str, Any]) -> None:
    engine = Engine(golden_game(record))
    if record.get("name") == "fuzz_names_524":  # Its only receptacle has a name without number: no `go to` fits it.
        with pytest.raises(OracleError, match="No plain plan"):
            engine.oracle()
        return
    plan = engine.oracle()
    assert not engine.won or plan == []  # Planning leaves the game as it was.
    assert all(engine.step(command).admitted for command in plan)
    assert engine.won
    assert len(plan) <= record.get("plan_length", 50)


@pytest.mark.skipif(not REAL_FILES, reason=f"no official games below {REAL}, set AGENT_ENVS_ALFWORLD_DATA")
@pytest.mark.parametrize("grammar", ["0.4", "0.3"])
def test_oracle_wins_official_games(grammar: str) -> None:
    for path in REAL_FILES:
        engine = Engine(load_game(path, grammar))
        for command in engine.oracle():
            assert engine.step(command).admitted
        assert engine.won, path


def test_oracle_wins_from_any_state_it_can_win_from() -> None:
    rng = random.Random(3)
    for record in EPISODES:
        engine = Engine(golden_game(record))
        random_walk(engine, 30, rng)
        if any(engine.state.held in items for items in engine.game.accepts.values()) or not engine.state.held:
            for command in engine.oracle():
                engine.step(command)
            assert engine.won


def test_oracle_reports_a_dead_end() -> None:
    engine = Engine(build_game(make_problem()))
    engine.step("go to desk 1")
    engine.step("take book 1 from desk 1")  # Nothing holds books here, not even the desk.
    with pytest.raises(OracleError, match="<problem>"):
        engine.oracle()


# ---- rules ---------------------------------------------------------------------------------------


def test_texts_of_the_old_grammar() -> None:
    engine = Engine(build_game(make_problem(), "put a mug in shelf", grammar="0.3"))
    assert "help" not in engine.admissible()
    assert engine.step("help").feedback == REFUSED
    assert engine.step("go to desk 1").feedback == "You arrive at loc 4. On the desk 1, you see a book 1, and a mug 1."
    engine.step("take mug 1 from desk 1")
    assert engine.step("move mug 1 to desk 1").feedback == REFUSED
    assert "put mug 1 in/on desk 1" in engine.admissible()
    assert engine.step("put mug 1 in/on desk 1").feedback == "You put the mug 1 in/on the desk 1."


def test_old_grammar_cleans_in_sinks() -> None:
    init = (
        KITCHEN
        + "(receptacleType Sink_bar_1 SinkType) (receptacleAtLocation Sink_bar_1 loc_bar_1) (cleanable Mug_bar_1)"
    )
    for grammar, possible in (("0.4", False), ("0.3", True)):
        engine = Engine(build_game(make_problem(init=init), grammar=grammar))
        engine.step("go to desk 1")
        engine.step("take mug 1 from desk 1")
        assert ("clean mug 1 with sink 1" in engine.admissible()) is possible


@pytest.mark.parametrize("grammar", ["0.4", "0.3"])
@pytest.mark.parametrize(
    "words", ["put {} in/on {}", "put {} in {}", "put {} on {}", "move {} to {}", " put {} on {}\n"]
)
def test_put_alias(grammar: str, words: str) -> None:
    game = build_game(make_problem(), grammar=grammar)
    results = []
    for alias in (True, False):
        engine = Engine(game, put_alias=alias)
        engine.step("go to desk 1")
        engine.step("take mug 1 from desk 1")
        results.append(engine.step(words.format("mug 1", "desk 1")).admitted)
        assert engine.step(words.format("mug 9", "desk 1")).feedback == REFUSED
    own = "move {} to {}" if grammar == "0.4" else "put {} in/on {}"
    assert results == [True, words == own]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "Look",
        "look.",
        "l",
        "go  to desk 1",
        "go to desk 01",
        "go to desk",
        "go to desk 99",
        "look\0",
        "冷蔵庫 é",
    ]
    + ["look " * 2000, "put " + "a in " * 2000, "examine mug 1", "open desk 1", "take mug 1 from shelf 1", "\ud800"],
)
def test_wrong_commands_change_nothing(command: str) -> None:
    engine = Engine(build_game(make_problem()), put_alias=True)
    before = engine.snapshot()
    result = engine.step(command)
    assert result == (REFUSED, 0, False, False, False)
    assert engine.snapshot() == before


def test_outer_blanks_are_forgiven() -> None:
    engine = Engine(build_game(make_problem()))
    assert engine.step("\u3000go to desk 1\u00a0\r\n").admitted


@pytest.mark.parametrize("command", [None, 3, b"look", ["look"]])
def test_a_command_must_be_text(command: Any) -> None:
    with pytest.raises(TypeError, match="A command must be a str, got"):
        Engine(build_game(make_problem())).step(command)


def test_the_game_goes_on_after_a_win() -> None:
    engine = Engine(build_game(make_problem()))
    for command in engine.oracle():
        assert not engine.won
        result = engine.step(command)
    assert (result.score, result.done, result.won) == (1, True, True)
    assert engine.step("nonsense") == (REFUSED, 1, True, True, False)
    assert engine.step("take mug 1 from shelf 1").score == 0


def test_returned_lists_are_fresh() -> None:
    engine = Engine(build_game(make_problem()))
    expected = engine.admissible(), engine.facts(), engine.changes()
    engine.admissible().clear()
    engine.facts()[0].append("x")
    engine.changes()["gained"].append(["x"])
    assert (engine.admissible(), engine.facts(), engine.changes()) == expected


@pytest.mark.parametrize(
    ("items", "text"),
    [([], "nothing"), (["a x"], "a x"), (["a x", "a y"], "a x, and a y"), (["a", "b", "c"], "a, b, and c")],
)
def test_list_form(items: list[str], text: str) -> None:
    assert enumerate_items(items) == text
