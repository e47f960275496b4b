"""Action parsing: faults seen in other projects, one test per id."""

import copy
import re

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.prompts import PromptBuilder
from agent_envs.prompts.library import LIBRARY
from agent_envs.tags import TagSpec

SPEC = TagSpec()


def spec_of(env_name):
    return PromptBuilder.for_env(f"agent_envs/{env_name}-v0").spec


def step_sokoban(action, **kwargs):
    """Return info of one step and whether the state stayed."""
    with gym.make("agent_envs/Sokoban-v0", **kwargs) as env:
        before = env.reset(seed=0, options={"task_index": 0})[1]["state_key"]
        info = env.step(action)[-1]
        return info, info["state_key"] == before


def test_b1_last_well_formed_pair_after_the_thought():
    assert SPEC.parse("<think>t</think></action> x <action>look</action>").action == "look"
    for reply in ("<think>t</think></action> x <action>look", "<think>t</think></action>look<action>"):
        parsed = SPEC.parse(reply)
        assert (parsed.format_ok, parsed.action, parsed.reason) == (False, "", "action_missing")


def test_b2_action_quoted_in_the_thought():
    reply = "<think>maybe <action>look</action></think><action>go to shelf 1</action>"
    assert SPEC.parse(reply).action == "go to shelf 1"


def test_b3_form_and_validity_are_two_flags():
    parsed = SPEC.parse("<think>t</think><action>dance</action>")
    assert parsed.format_ok and parsed.action == "dance"
    info, stayed = step_sokoban(parsed.action)
    assert info["action_is_valid"] is False and stayed


@pytest.mark.parametrize(
    ("action", "refusal"),
    [
        ("go right, not up", "ambiguous"),
        ("upright", "unknown_action"),
        ("Left then down", "ambiguous"),
        ("right", ""),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_b5_words_match_whole_and_alone(action, refusal, lenient):
    parsed = SPEC.parse(f"<think>t</think><action>{action}</action>")
    info, stayed = step_sokoban(SPEC.env_action(parsed), lenient=lenient)
    assert info["refusal"] == refusal and info["action_is_valid"] == (not refusal)
    assert not refusal or stayed


def test_b6_search_mentioned_in_the_thought():
    spec = spec_of("SearchQA")
    parsed = spec.parse("<think>I could <search> or not</think><search>q</search>")
    assert (parsed.action, parsed.tag, parsed.format_ok) == ("q", "search", True)
    assert spec.env_action(parsed) == "<search>q</search>"


@pytest.mark.parametrize(
    "reply",
    [
        "<think>run <code>delete_all()</code>?</think>",
        "delete_all()",
        "```python\ndelete_all()\n```",
        "<think>t</think>delete_all()",
        "<think>t</think><code>delete_all()",
        "<think>t <code>delete_all()</code>",
        "<code>delete_all()</code><think>t</think>",
    ],
)
def test_b8_nothing_outside_a_code_block_is_run(reply):
    spec = spec_of("AppWorld")
    parsed = spec.parse(reply)
    assert spec.env_action(parsed) == "" and not parsed.format_ok


def test_b8_a_refused_form_is_shown():
    """The empty action of a reply without the asked form is refused by every environment that is built in."""
    info, stayed = step_sokoban(SPEC.env_action(SPEC.parse("right")))
    assert info["action_is_valid"] is False and info["refusal"] and stayed and info["turn"] == 1


def test_b9_order_case_and_script():
    assert SPEC.parse("</think>hm<think><action>look</action>").reason == "think_order"
    assert SPEC.parse("<THINK>t</THINK><action>look</action>").action == "look"
    strict = TagSpec(forbid_scripts=("Han", "Hiragana", "Katakana", "Hangul"))
    for word in ("看", "みる", "ミル", "보다"):
        reply = f"<think>t</think><action>{word}</action>"
        assert SPEC.parse(reply).action == word
        assert (strict.parse(reply).reason, strict.parse(reply).action) == ("script", "")


@pytest.mark.parametrize(
    "reply",
    [
        "<think>t</think><think>u</think><action>look</action>",
        "<think>t</think><action>look</action><action>look</action>",
    ],
)
def test_b10_repeated_blocks(reply):
    assert SPEC.parse(reply).action == "look"
    parsed = TagSpec(exactly_one=True).parse(reply)
    assert (parsed.format_ok, parsed.reason, parsed.action) == (False, "action_multiple", "")
    assert "exactly_one" in TagSpec.__doc__ and "By default the last action" in TagSpec.__doc__


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_b11_prompt_and_parser_come_from_one_object(name):
    for spec in (None, TagSpec(think="thinking", actions=("act",))):
        builder = PromptBuilder.for_env(f"agent_envs/{name}-v0", spec=spec)
        for text in (builder.templates.first, builder.templates.later):
            assert "{format_instructions}" in text and not re.search(r"</(think|action|search|answer|code)>", text)
        think, *actions = re.findall(r"<(\w+)>\.\.\.</\1>", builder.spec.instruction())
        for action in actions:
            parsed = builder.spec.parse(f"<{think}>t</{think}><{action}>x</{action}>")
            assert (parsed.action, parsed.tag, parsed.thought) == ("x", action, "t")


def test_b13_parsing_is_pure():
    replies = ["<think>t</think><action> look </action>", "", "<action>", "<think>"]
    before = copy.deepcopy(replies)
    first = [SPEC.parse(reply) for reply in replies]
    assert replies == before and [SPEC.parse(reply) for reply in reversed(replies)] == first[::-1]
