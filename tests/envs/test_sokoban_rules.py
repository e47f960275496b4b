"""Transition and solver of Sokoban: hand-made boards, and rooms recorded from gym-sokoban 0.0.6."""

import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from agent_envs.envs.sokoban import SokobanEnv
from agent_envs.envs.sokoban.generate import LevelParams, generate_level
from agent_envs.envs.sokoban.levels import format_level, parse_levels
from agent_envs.envs.sokoban.rules import (
    BOX_ON_TARGET,
    WORDS,
    Level,
    digit_rows,
    find_player,
    fixed_layout,
    from_digit_rows,
    move,
    neighbours,
)
from agent_envs.envs.sokoban.solver import solve

ROOMS = json.loads((Path(__file__).parents[1] / "data" / "sokoban" / "rooms.json").read_text())["rooms"]
UP, DOWN, LEFT, RIGHT = range(4)


def recorded_level(room: dict) -> Level:
    """A recorded start; the recorder writes 5 for a player on a target too."""
    fixed, state = np.array(room["room_fixed"]), np.array(room["room_state"])
    return Level(
        bytes(np.where((state == 5) & (fixed == 2), 6, state).astype(np.uint8).ravel().tolist()), room["dim"][1]
    )


def as_recorded(room: bytes, width: int) -> list[list[int]]:
    return [[min(int(digit), 5) for digit in row] for row in digit_rows(room, width)]


@pytest.mark.parametrize("recorded", ROOMS, ids=[room["id"] for room in ROOMS])
def test_recorded_rooms_replay_step_by_step(recorded):
    room, width = recorded_level(recorded)
    num_boxes = recorded["num_boxes"]
    assert fixed_layout(room) == bytes(sum(recorded["room_fixed"], []))
    player, on_target = find_player(room), room.count(BOX_ON_TARGET)
    assert on_target == recorded["boxes_on_target_at_reset"]
    for count, step in enumerate(recorded["steps"], start=1):
        action, change, moved, pushed = step["action"], 0, False, False
        if action:
            room, player, moved, pushed, change = move(room, width, player, (action - 1) % 4, push=action < 5)
        on_target += change
        assert as_recorded(room, width) == step["state"]
        assert list(divmod(player, width)) == step["player"]
        assert (moved, pushed) == (step["moved_player"], step["moved_box"])
        assert on_target == step["boxes_on_target"] == room.count(BOX_ON_TARGET)
        solved = on_target == num_boxes
        assert solved == step["solved"]
        assert step["done"] == (solved or count == recorded["max_steps"])
        assert -0.1 + change + 10 * solved == pytest.approx(step["reward"], abs=1e-9)


WORD_ROOMS = [room for room in ROOMS if all(step["action"] < 5 for step in room["steps"])]


@pytest.mark.parametrize("recorded", WORD_ROOMS, ids=[room["id"] for room in WORD_ROOMS])
def test_recorded_rooms_replay_through_the_environment(recorded, tmp_path):
    (tmp_path / "train.txt").write_text("; 0\n" + format_level(recorded_level(recorded)) + "\n")
    env = SokobanEnv(level_dir=str(tmp_path), max_turns=recorded["max_steps"], allow_still=True)
    env.reset(seed=0)
    for count, step in enumerate(recorded["steps"], start=1):
        word = (*WORDS, "still")[step["action"] - 1]
        _, reward, terminated, truncated, info = env.step(word)
        assert env.room_state.tolist() == step["state"]
        assert reward == pytest.approx(step["reward"], abs=1e-9)
        assert terminated == info["success"] == step["solved"]
        assert truncated == (count == recorded["max_steps"] and not step["solved"])
        assert terminated or truncated or not step["done"]
        assert info["boxes_on_target"] == step["boxes_on_target"]
        assert info["moved"] == step["moved_player"]


def board(*rows: str) -> tuple[bytes, int, int]:
    """Rows of level symbols with a border added: ``(room, width, player)``."""
    symbols = {"#": 0, " ": 1, ".": 2, "*": 3, "$": 4, "@": 5, "+": 6}
    width = len(rows[0]) + 2
    lines = ["#" * width, *(f"#{row}#" for row in rows), "#" * width]
    room = bytes(symbols[symbol] for line in lines for symbol in line)
    return room, width, find_player(room)


@pytest.mark.parametrize(
    "before, after, change",
    [
        ("@  ", " @ ", 0),  # step
        ("@. ", " + ", 0),  # step onto a target
        ("+  ", ".@ ", 0),  # and off it
        ("@$ ", " @$", 0),  # push
        ("@$.", " @*", 1),  # onto a target
        ("@* ", " +$", -1),  # off a target
        ("@*.", " +*", 0),  # from target to target
        ("+$ ", ".@$", 0),  # the player leaves a target while pushing
    ],
)
def test_moves_on_a_5x5_board(before, after, change):
    for direction in range(4):
        room, width, player = board(*_turned(before, direction))
        moved = move(room, width, player, direction)
        assert moved.room == board(*_turned(after, direction))[0]
        assert (moved.moved, moved.change) == (True, change)
        assert moved.pushed == any(box in before for box in "$*")
        assert moved.player == find_player(moved.room)


@pytest.mark.parametrize("line", ["  @", "@# ", " @$", " @*", "@$$", "@$*", "@**", "@*$", "@$#", "@*#"])
def test_blocked_moves_change_nothing(line):
    for direction in range(4):
        room, width, player = board(*_turned(line, direction))
        assert move(room, width, player, direction) == (room, player, False, False, 0)


def _turned(line: str, direction: int) -> list[str]:
    """Three rows with ``line`` in the middle, to be walked in ``direction``."""
    line = line[::-1] if direction in (UP, LEFT) else line
    return ["   ", line, "   "] if direction in (LEFT, RIGHT) else [f" {symbol} " for symbol in line]


def test_without_push_a_box_blocks():
    room, width, player = board("@$.")
    assert not move(room, width, player, RIGHT, push=False).moved


def test_outside_of_the_array_is_a_wall():
    room = bytes((5, 4, 2, 1))  # one row without border
    assert not move(room, 4, 0, LEFT).moved
    assert not move(room, 4, 0, UP).moved
    assert not move(bytes((2, 1, 5, 4)), 4, 2, RIGHT).moved
    assert neighbours(1, 4)[LEFT] == (-1, 0, 1, 2)


def test_digit_rows_round_trip_and_bad_digits():
    room, width, _ = board("@$.", " *+"[:2] + " ")
    assert from_digit_rows(digit_rows(room, width)) == room
    with pytest.raises(ValueError, match="digits 0-6"):
        from_digit_rows(["0170"])


# ------------------------------------------------------------------ solver


def breadth_first(room: bytes, width: int) -> int | None:
    """The plain search over whole boards that the solver must agree with."""
    start = (room, find_player(room))
    queue, seen = deque([(start, 0)]), {room}
    while queue:
        (room, player), depth = queue.popleft()
        if 4 not in room:
            return depth
        for direction in range(4):
            after = move(room, width, player, direction)
            if after.room not in seen:
                seen.add(after.room)
                queue.append(((after.room, after.player), depth + 1))
    return None


@pytest.mark.parametrize("dim, num_boxes, seeds", [(6, 1, 25), (6, 2, 6)])
def test_solver_is_shortest(dim, num_boxes, seeds):
    params = LevelParams(height=dim, width=dim, num_boxes=num_boxes, search_depth=300)
    for seed in range(seeds):
        room, width = generate_level(params, seed)
        moves = solve(room, width)
        assert moves is not None and len(moves) == breadth_first(room, width)
        player = find_player(room)
        for direction in moves:
            room, player, moved, _, _ = move(room, width, player, direction)
            assert moved
        assert 4 not in room


def test_solver_limits_and_dead_boards():
    (level,) = parse_levels("#######\n#     #\n#@$  .#\n#     #\n#######", "here")
    assert solve(*level) == [RIGHT] * 3
    assert solve(*level, max_moves=3) == [RIGHT] * 3
    assert solve(*level, max_moves=2) is None
    assert solve(*level, node_limit=1) is None
    room, width, _ = board("$ @", "  .")
    assert solve(room, width) is None  # a box in a corner
    room, width, _ = board("*@ ")
    assert solve(room, width) == []


def test_solver_with_many_boxes():
    room, width, player = board("@      ", "$$$$$$$", ".......", "       ")
    moves = solve(room, width)
    assert moves is not None
    for direction in moves:
        room, player, *_ = move(room, width, player, direction)
    assert 4 not in room
    # Seven pushes, six walks to the next box: up, then right.
    assert len(moves) == 7 + 6 * 2
