"""Replies to the card games: the papers' JSON, tags, bare symbols."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.envs.cards.actions import EZPOINTS, POINTS24
from agent_envs.json_reply import JsonOrTagSpec, json_action
from agent_envs.tags import TagSpec

SPEC = JsonOrTagSpec(symbols=POINTS24.spellings)


@pytest.mark.parametrize(
    ("text", "action", "format_ok", "reason"),
    [
        # JSON
        ('{"thoughts": "t", "action": "5"}', "5", True, "ok"),
        ('{"action" : "5"}', "5", True, "ok"),
        ('{"action": 5}', "5", True, "ok"),
        ('{"action": 10, "other": [1, {"a": null}]}', "10", True, "ok"),
        ('{"action":"3","note":"then + 9"}', "3", True, "ok"),
        ('Sure! ```json\n{"thoughts": "braces { and }", "action": "+"}\n```', "+", True, "ok"),
        ('{"action": "1"} no, {"action": "2"}', "2", True, "ok"),
        ('{"action": "1"} {"note": "2"}', "1", True, "ok"),
        ('{"a": {"action": "3"}, "action": "4"}', "4", True, "ok"),
        ('{{"action": "4"}}', "4", True, "ok"),
        ('{ not json } {"action": "J"}', "J", True, "ok"),
        ('{"action": "3 + 9"}', "3 + 9", True, "ok"),
        ('{"action": "sum"}', "sum", True, "ok"),
        ('{"action": ""}', "", False, "action_empty"),
        ('{"action": -5}', "-5", True, "ok"),
        # JSON before tags, but never from inside the thought
        ('<think>t</think><action>{"action": "7"}</action>', "7", True, "ok"),
        ('<think>{"action": "3"}</think><action>5</action>', "5", True, "ok"),
        ('<think>t</think>{"action": "5"}', "5", True, "ok"),
        ('<think>{"action": "3"}', "", False, "think_unclosed"),
        # tags
        ("<think>t</think><action>5</action>", "5", True, "ok"),
        ("<think>t</think><action>×</action>", "×", True, "ok"),
        ("<action>5</action>", "", False, "think_missing"),
        ("<think>t</think>5", "", False, "action_missing"),
        # neither
        ("5", "", False, "bare_symbol"),
        (" K ", "", False, "bare_symbol"),
        ("I choose 5", "", False, "think_missing"),
        ("", "", False, "think_missing"),
        ('{"action": null}', "", False, "think_missing"),
        ('{"action": true}', "", False, "think_missing"),
        ('{"action": 5.0}', "", False, "think_missing"),
        ('{"action": ["5"]}', "", False, "think_missing"),
        ('{"action": "5"', "", False, "think_missing"),
        ("{'action': '5'}", "", False, "think_missing"),
    ],
)
def test_reading_of_a_reply(text, action, format_ok, reason):
    reply = SPEC.parse(text)
    assert (reply.action, reply.format_ok, reply.reason) == (action, format_ok, reason)


def test_bare_symbols_are_taken_if_lenient():
    spec = JsonOrTagSpec(symbols=POINTS24.spellings, lenient=True)
    assert spec.parse(" k").action == "k"
    assert not spec.parse("5 6").format_ok


def test_other_tags_and_symbols():
    spec = JsonOrTagSpec(tags=TagSpec(think=None), symbols=EZPOINTS.spellings)
    assert spec.parse("<action>left</action>").action == "left"
    assert spec.parse("-").reason == "action_missing"


@pytest.mark.parametrize("value", [None, 5, b"5", ["5"]])
def test_a_reply_must_be_text(value):
    with pytest.raises(TypeError, match="must be a str"):
        SPEC.parse(value)


def test_unknown_form_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'json'"):
        JsonOrTagSpec(ask="jsn")


def test_the_instruction_is_followed_by_an_example_that_parses():
    spec = JsonOrTagSpec(ask="json")
    example = re.search(r"\{.*\}", spec.instruction())[0]
    assert spec.parse(example).action == "your action"
    assert JsonOrTagSpec().instruction() == TagSpec().instruction()


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (json.dumps({"thoughts": "a" * 1_000_000, "action": "5"}), "5"),
        ('{"a":' * 200_000, None),
        ("{" * 500_000, None),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, None),
        ("[" * 100_000 + '{"action": "5"}', "5"),
        ('{"action": ' + "1" * 10_000 + "}", "1" * 10_000),
        ('{"action": "5"}' * 20_000, "5"),
        ('{"x{' * 200_000, None),
    ],
)
def test_huge_replies_end(text, action):
    assert json_action(text) == action


@settings(deadline=None)
@given(
    action=st.one_of(st.sampled_from(POINTS24.symbols), st.text(max_size=20)),
    thoughts=st.text(max_size=60).filter(lambda text: "<think>" not in text.lower()),
    extra=st.dictionaries(st.text(max_size=5).filter(lambda key: key != "action"), st.integers(), max_size=3),
    indent=st.sampled_from([None, 2]),
)
def test_every_json_reply_of_the_papers_form_is_read(action, thoughts, extra, indent):
    text = "Here it is:\n" + json.dumps({"thoughts": thoughts, **extra, "action": action}, indent=indent) + "\nDone."
    assert json_action(text) == action
    reply = SPEC.parse(text)
    assert reply.format_ok == bool(action.strip())
    assert reply.action == action.strip()


@settings(deadline=None)
@given(st.text(alphabet='{}[]"\\:,action 5<>/thik', max_size=80))
def test_no_text_raises(text):
    reply = SPEC.parse(text)
    assert reply.format_ok or reply.action == ""
