"""The shipped memories: what they show, budgets, state, bad input."""

import json

import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.memory import Budget, Memory, SummaryMemory, WindowMemory, make_memory

VALID, REFUSED = {"action_is_valid": True}, {"action_is_valid": False}
NAMES = ("none", "window", "summary", "household")


def play(memory, num_turns, *, start=0):
    if start == 0:
        memory.reset(task_id="toy/train/0", observation="room 0")
    for turn in range(start, num_turns):
        info = REFUSED if turn % 3 == 2 else VALID
        memory.store(observation=f"room {turn + 1}", action=f"go {turn % 4}", info=info)
    return memory


def shown(memory, budget=None):
    return memory.render(budget or Budget()).text


def test_none_shows_nothing():
    view = play(make_memory("none"), 5).render(Budget())
    assert (view.text, view.images, view.num_turns) == ("", (), 0)


def test_window_shows_the_last_turns_in_lines():
    memory = play(make_memory("window"), 4)
    assert shown(memory) == (
        "[Observation 3: 'room 2', Action 3: 'go 2' (refused)]\n[Observation 4: 'room 3', Action 4: 'go 3']"
    )
    assert memory.render(Budget()).num_turns == 2


@pytest.mark.parametrize(("length", "expected"), [(0, 0), (1, 1), (3, 3), (9, 5), (None, 5)])
def test_history_length(length, expected):
    view = play(make_memory("window", history_length=length), 5).render(Budget())
    assert view.num_turns == expected == view.text.count("[Observation")


def test_steps_and_blocks_end_where_the_current_observation_goes():
    steps = play(make_memory("window", style="steps"), 3)
    assert shown(steps) == "Step 2: go 1 room 2\nStep 3: go 2 (refused) "
    blocks = play(make_memory("window", style="blocks"), 3)
    assert shown(blocks) == "Code 2:\ngo 1\nResult 2:\nroom 2\nCode 3 (refused):\ngo 2\nResult 3:\n"


def test_refused_action_is_cut_and_marked():
    memory = make_memory("window")
    memory.reset(task_id="t", observation="o")
    memory.store(observation="o", action="x" * 500, info=REFUSED)
    memory.store(observation="o", action="y" * 500, info=VALID)
    assert f"'{'x' * 200}...' (refused)]" in shown(memory) and "x" * 201 not in shown(memory)
    assert f"'{'y' * 500}']" in shown(memory)


def test_reset_forgets():
    for name in NAMES:
        memory = play(make_memory(name), 5)
        memory.reset(task_id="t", observation="new")
        assert memory.render(Budget()) == make_memory("none").render(Budget())
        memory.store(observation="o", action="first", info=VALID)
        assert name in ("none", "household") or "[Observation 1: 'new', Action 1: 'first']" in shown(memory)


def test_members_share_nothing():
    first, second = (make_memory("window") for _ in range(2))
    play(first, 3)
    play(second, 1)
    assert "room 2" in shown(first) and "room 2" not in shown(second)


def test_observations_are_copied_as_text():
    observation = {"image": object(), "text": "grid"}
    memory = make_memory("window")
    memory.reset(task_id="t", observation=observation)
    observation["text"] = "changed"
    memory.store(observation="o", action="a", info=VALID)
    assert "[image] grid" in shown(memory)


# ------------------------------------------------------------------ budgets


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("style", ["lines", "steps", "blocks"])
def test_every_budget_is_kept_and_more_room_shows_no_less(name, style):
    memory = play(make_memory(name, history_length=4, style=style), 12)
    full, last = shown(memory), 0
    for limit in range(len(full) + 2):
        view = memory.render(Budget(limit))
        assert len(view.text) <= limit and full.endswith(view.text) and view.num_turns >= last
        last = view.num_turns
    assert view.text == full


def test_oldest_turns_go_first_with_a_token_counter():
    memory = play(make_memory("window", history_length=None), 6)
    view = memory.render(Budget(20, lambda text: len(text.split())))
    assert view.num_turns == 2 and "room 4" in view.text and "room 5" in view.text and "room 3" not in view.text


def test_a_long_history_costs_few_counts():
    calls = []

    def count(text):
        calls.append(len(text))
        return len(text)

    play(make_memory("window", history_length=None), 300).render(Budget(1000, count))
    assert len(calls) < 15


# ------------------------------------------------------------------ summary


def test_summary_is_a_window_above_counts():
    memory = play(make_memory("summary", history_length=1), 7)
    assert shown(memory).splitlines() == [
        "Turns 1 to 6 in short: 4 different actions, 2 of 6 refused.",
        "- 'go 2' x 1, 1 refused, last in turn 3: 'room 3'",
        "- 'go 3' x 1, last in turn 4: 'room 4'",
        "- 'go 0' x 2, last in turn 5: 'room 5'",
        "- 'go 1' x 2, 1 refused, last in turn 6: 'room 6'",
        "[Observation 7: 'room 6', Action 7: 'go 2']",
    ]
    assert memory.render(Budget()).num_turns == 1


def test_summary_of_a_short_episode_is_the_window():
    assert shown(play(make_memory("summary"), 2)) == shown(play(make_memory("window"), 2))


def test_summary_without_window():
    memory = play(make_memory("summary", history_length=0), 2)
    assert shown(memory).splitlines()[1:] == [
        "- 'go 0' x 1, last in turn 1: 'room 1'", "- 'go 1' x 1, last in turn 2: 'room 2'"
    ]  # fmt: skip


def test_summary_shows_the_actions_taken_last():
    memory = make_memory("summary", history_length=0, max_actions=2)
    memory.reset(task_id="t", observation="o")
    for action in ("a", "b", "c", "a"):
        memory.store(observation="r" * 500, action=action, info=VALID)
    text = shown(memory)
    assert "The 2 taken last:\n- 'c'" in text and text.index("- 'c'") < text.index("- 'a' x 2")
    assert "- 'b'" not in text and "r" * 121 not in text


# ------------------------------------------------------------------ household


def household(*commands, **kwargs):
    memory = make_memory("household", **kwargs)
    memory.reset(task_id="t", observation="a room")
    for command in commands:
        refused, command = command.startswith("!"), command.lstrip("!")
        answer = "Nothing happens." if refused else f"after {command}"
        memory.store(observation=answer, action=command, info=REFUSED if refused else VALID)
    return shown(memory)


def test_household_notes():
    assert household() == household("look") == ""
    search = ["go to shelf 1", "go to microwave 1", "go to shelf 1"]
    assert household(*search) == "Been at: microwave 1, shelf 1."
    assert household(*search, max_places=1) == "Been at: shelf 1."
    assert household("take mug 1 from shelf 1") == household("take mug 1 from shelf 1", "look") == "Holding: mug 1."
    held = ["take mug 1 from shelf 1", "heat mug 1 with microwave 1"]
    assert household(*held) == "Holding: mug 1, hot."
    for place in ("move mug 1 to shelf 1", "put mug 1 in/on shelf 1"):
        assert household(*held, place) == ""
    assert household(*held, "move mug 1 to shelf 1", "take mug 2 from shelf 1") == "Holding: mug 2."


def test_household_shows_the_last_answer_until_a_command_is_taken():
    tried = ["go to shelf 1", "!take mug 1 from shelf 1", "!heat mug 1", "!go to shelf 1"]
    assert household(*tried).splitlines() == [
        "Been at: shelf 1.", "after go to shelf 1", "Refused: heat mug 1; go to shelf 1"
    ]  # fmt: skip
    assert household(*tried, "look") == "Been at: shelf 1."
    assert household("!x", history_length=0) == ""


def test_household_reads_commands_as_the_environment_does():
    assert household("Go to Fridge 1.", " go to  fridge 1", "'go to fridge 1'") == "Been at: fridge 1."
    assert household("take mug 1 from shelf 1", "Move  mug 1 to shelf 1.") == ""


def test_household_state_and_budget():
    memory = make_memory("household")
    memory.reset(task_id="t", observation="a room")
    commands = ["go to shelf 1", "take mug 1 from shelf 1", "go to microwave 1", "heat mug 1 with microwave 1"]
    for command in commands:
        memory.store(observation=f"after {command}", action=command, info=VALID)
    memory.store(observation="Nothing happens.", action="dance", info=REFUSED)
    lines = ["Been at: shelf 1, microwave 1.", "Holding: mug 1, hot.", f"after {commands[-1]}", "Refused: dance"]
    assert shown(memory).splitlines() == lines
    copy = make_memory("household")
    copy.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    for each in (memory, copy):
        each.store(observation="ok", action="move mug 1 to microwave 1", info=VALID)
        assert shown(each) == lines[0]
    copy.load_state_dict(json.loads(json.dumps({**memory.state_dict(), "held": ["mug 1", "hot"]})))
    full = shown(copy)
    kept = [shown(copy, Budget(limit)) for limit in range(len(full) + 1)]
    assert set(kept) == {"", lines[1], full} and all(len(text) <= limit for limit, text in enumerate(kept))
    for damage in ({"places": "abc"}, {"held": "xy"}, {"held": ["a"]}, {"refused": [1]}, {"answer": 3}):
        with pytest.raises(ValueError, match="Not a state of this memory"):
            copy.load_state_dict({**memory.state_dict(), **damage})


# ------------------------------------------------------------------ state


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at", [0, 1, 6])
def test_state_goes_through_json(name, at):
    memory = play(make_memory(name, history_length=3), at)
    copy = make_memory(name, history_length=3)
    copy.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert shown(copy) == shown(memory)
    assert shown(play(copy, 9, start=max(at, 1))) == shown(play(memory, 9, start=max(at, 1)))


@pytest.mark.parametrize("name", ["window", "summary", "household"])
@pytest.mark.parametrize("state", [{}, {"turns": 3}, {"log": {}}, {"x": 1}, {"log": {"turns": [[1]]}, "actions": []}])
def test_damaged_state_is_refused_and_changes_nothing(name, state):
    memory = play(make_memory(name), 3)
    before = shown(memory)
    with pytest.raises(ValueError, match="Not a state of this memory"):
        memory.load_state_dict(state)
    assert shown(memory) == before


def test_state_of_a_longer_window_is_refused():
    state = play(make_memory("window", history_length=5), 5).state_dict()
    with pytest.raises(ValueError, match="it holds 5 turns, this memory keeps 2"):
        make_memory("window").load_state_dict(state)
    with pytest.raises(ValueError, match="Not a state"):
        make_memory("none").load_state_dict(state)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"history_length": -1}, ValueError, "history_length must be >= 0, got -1"),
        ({"history_length": 2.0}, TypeError, "history_length must be an int or None, got 2.0"),
        ({"history_length": True}, TypeError, "got True"),
        ({"style": "line"}, ValueError, "Unknown style 'line'. Did you mean 'lines'"),
        ({"histroy_length": 2}, TypeError, "histroy_length"),
    ],
)
def test_wrong_arguments_are_named(name, kwargs, error, text):
    with pytest.raises(error, match=text):
        make_memory(name, **kwargs)


def test_wrong_summary_argument():
    with pytest.raises(ValueError, match="max_actions must be >= 0, got -2"):
        SummaryMemory(max_actions=-2)


def test_wrong_calls():
    memory = WindowMemory()
    assert shown(memory) == ""
    with pytest.raises(ResetNeeded, match="reset\\(\\) before store"):
        memory.store(observation="o", action="a", info={})
    with pytest.raises(TypeError, match="a str under 'text', got a dict with \\['image'\\]"):
        memory.reset(task_id="t", observation={"image": 1})
    memory.reset(task_id="t", observation="o")
    for observation, action in (("o", None), (3, "a")):
        with pytest.raises(TypeError):
            memory.store(observation=observation, action=action, info={})
    assert shown(memory) == ""


def test_the_protocol_must_be_filled():
    with pytest.raises(TypeError, match="abstract"):
        Memory()


@settings(deadline=None, max_examples=50)
@given(
    turns=st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30), st.booleans()), max_size=8),
    limit=st.integers(0, 400),
    name=st.sampled_from(NAMES),
)
def test_any_text_is_kept_and_every_budget_holds(turns, limit, name):
    memory = make_memory(name, history_length=3)
    memory.reset(task_id="t", observation="<image>")
    for observation, action, valid in turns:
        memory.store(observation=observation, action=action, info={"action_is_valid": valid})
    assert len(shown(memory, Budget(limit))) <= limit
    assert "<image>" not in shown(memory)
