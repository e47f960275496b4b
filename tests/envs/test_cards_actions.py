"""Reading of action texts and of replies to the card games."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.envs.cards.actions import (
    BLACKJACK,
    EZPOINTS,
    NUMBERLINE,
    POINTS24,
    POINTS24_FACES,
    json_action,
    parse_reply,
)
from agent_envs.tags import TagSpec


def test_symbols_stand_in_the_order_of_the_original_ids():
    assert EZPOINTS.symbols == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "*", "=")
    assert POINTS24.symbols[10:] == ("+", "-", "*", "/", "(", ")", "=")
    assert POINTS24_FACES.symbols[:13] == tuple(str(n) for n in range(1, 14))
    assert NUMBERLINE.symbols == ("-", "+")
    assert BLACKJACK.symbols == ("stand", "hit")


@pytest.mark.parametrize(
    ("vocabulary", "text", "symbol", "reason"),
    [
        (EZPOINTS, "5", "5", "ok"),
        (EZPOINTS, " 10 \n", "10", "ok"),
        (EZPOINTS, "x", "*", "ok"),
        (EZPOINTS, "×", "*", "ok"),
        (EZPOINTS, "J", "10", "face_alias"),
        (EZPOINTS, "Q", "10", "face_alias"),
        (EZPOINTS, "K", "10", "face_alias"),
        (POINTS24_FACES, "J", "11", "face_alias"),
        (POINTS24_FACES, "K", "13", "face_alias"),
        (EZPOINTS, "3 + 9", "", "action_multiple"),
        (EZPOINTS, "3+9", "", "action_multiple"),
        (EZPOINTS, "3, +", "", "action_multiple"),
        (EZPOINTS, "J + 2", "", "action_multiple"),
        (EZPOINTS, "11", "", "unknown_action"),
        (EZPOINTS, "-", "", "unknown_action"),
        (EZPOINTS, "0", "", "unknown_action"),
        (EZPOINTS, "05", "", "unknown_action"),
        (EZPOINTS, "", "", "unknown_action"),
        (EZPOINTS, "3 then +", "", "unknown_action"),
        (EZPOINTS, "number 3", "", "unknown_action"),
        (EZPOINTS, "A", "", "unknown_action"),
        (EZPOINTS, "٣", "", "unknown_action"),
        (EZPOINTS, "\uff13", "", "unknown_action"),
        (EZPOINTS, "\u212a", "", "unknown_action"),  # the Kelvin sign
        (EZPOINTS, "+" * 100_000, "", "unknown_action"),
        (NUMBERLINE, "left", "-", "ok"),
        (NUMBERLINE, "Right", "+", "ok"),
        (NUMBERLINE, "-", "-", "ok"),
        (NUMBERLINE, "left right", "", "action_multiple"),
        (NUMBERLINE, "leftright", "", "unknown_action"),
        (NUMBERLINE, "1", "", "unknown_action"),
        (BLACKJACK, "HIT", "hit", "ok"),
        (BLACKJACK, "hit, stand", "", "action_multiple"),
        (BLACKJACK, "don't hit", "", "unknown_action"),
    ],
)
def test_reading_of_an_action_text(vocabulary, text, symbol, reason):
    reading = vocabulary.read(text)
    assert (reading.symbol, reading.reason) == (symbol, reason)


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
        ('{ not json } {"action": "J"}', "10", True, "face_alias"),
        ('{"action": "3 + 9"}', "3 + 9", True, "action_multiple"),
        ('{"action": "sum"}', "sum", True, "unknown_action"),
        ('{"action": ""}', "", True, "unknown_action"),
        ('{"action": -5}', "-5", True, "action_multiple"),
        # JSON before tags, but never from inside the thought
        ('<think>t</think><action>{"action": "7"}</action>', "7", True, "ok"),
        ('<think>{"action": "3"}</think><action>5</action>', "5", True, "ok"),
        ('<think>t</think>{"action": "5"}', "5", True, "ok"),
        ('<think>{"action": "3"}', "", False, "think_unclosed"),
        # tags
        ("<think>t</think><action>5</action>", "5", True, "ok"),
        ("<think>t</think><action>×</action>", "*", True, "ok"),
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
    reply = parse_reply(text)
    assert (reply.action, reply.format_ok, reply.reason) == (action, format_ok, reason)


def test_bare_symbols_are_taken_if_lenient():
    assert parse_reply("5", lenient=True).action == "5"
    assert parse_reply(" k", lenient=True).reason == "face_alias"
    assert not parse_reply("5 6", lenient=True).format_ok


def test_other_tags_and_vocabularies():
    tags = TagSpec(think=None)
    assert parse_reply("<action>left</action>", vocabulary=NUMBERLINE, tags=tags).action == "-"
    assert parse_reply('{"action": "left"}', vocabulary=POINTS24).reason == "unknown_action"


@pytest.mark.parametrize("value", [None, 5, b"5", ["5"]])
def test_a_reply_must_be_text(value):
    with pytest.raises(TypeError, match="must be a str"):
        parse_reply(value)


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
    reply = parse_reply(text)
    assert reply.format_ok
    assert reply.action == (POINTS24.read(action).symbol or action.strip())


@settings(deadline=None)
@given(st.text(alphabet='{}[]"\\:,action 5<>/thik', max_size=80))
def test_no_text_raises(text):
    reply = parse_reply(text)
    assert reply.format_ok or reply.action == ""
