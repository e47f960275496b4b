"""The tag specification: what it writes into prompts and what it reads in replies."""

import dataclasses
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.tags import TagSpec

SPECS = [
    TagSpec(),
    TagSpec(think=None),
    TagSpec(require_think=False),
    TagSpec(exactly_one=True),
    TagSpec(ignore_case=False),
    TagSpec(think="reasoning", actions=("code",)),
    TagSpec(actions=("search", "answer"), exactly_one=True),
    TagSpec(response_prefix="<think>"),
    TagSpec(think=None, response_prefix="<action>", stop="</action>"),
]
PIECES = ["<think>", "</think>", "<action>", "</action>", "<ACTION>", "<search>", "</search>", "</answer>", "<answer>"]


@pytest.mark.parametrize(
    ("reply", "action", "reason"),
    [
        ("<think>t</think><action>look</action>", "look", "ok"),
        ("<think>t</think>\n\n<action>\n look \n</action>\n", "look", "ok"),
        ("<think></think><action>look</action>", "look", "ok"),
        ("<think>t</think><action>a</action> or <action>b</action>", "b", "ok"),
        ("<think>t</think><action>a <action>b</action> c", "b", "ok"),
        ("<think>t</think><action>a</action><action>never closed", "a", "ok"),
        ("<think>t</think><action>a<b</action>", "a<b", "ok"),
        ("<think>t</think><action>a</action><think>u</think>", "a", "ok"),
        ("<think>one<think>two</think><action>a</action>", "a", "ok"),
        ("", "", "think_missing"),
        ("look", "", "think_missing"),
        ("<action>look</action>", "", "think_missing"),
        ("<think>t</think>", "", "action_missing"),
        ("<think>t</think>look", "", "action_missing"),
        ("<think>t</think><action>look", "", "action_missing"),
        ("<think>t</think>look</action>", "", "action_missing"),
        ("<action>look</action><think>t</think>", "", "action_missing"),
        ("<think>t</think>< action >look</ action >", "", "action_missing"),
        ("<think>t</think><actions>look</actions>", "", "action_missing"),
        ("<think>t</think><action>a<think>u</think>b</action>", "", "action_missing"),
        ("<think>t</think><act<think></think>ion>a</action>", "", "action_missing"),
        ("<think>t</think><action> \n</action>", "", "action_empty"),
        ("<think>t</think><action>a</action><action></action>", "", "action_empty"),
        ("</think><think>t</think><action>a</action>", "", "think_order"),
        ("<think>t</think><action>a</action></think>", "", "think_order"),
        ("<think>t <action>a</action>", "", "think_unclosed"),
        ("<action>a</action><think>t", "", "think_unclosed"),
        ("<think>t</think><action>a</action><think>u", "", "think_unclosed"),
    ],
)
def test_rules(reply, action, reason):
    parsed = TagSpec().parse(reply)
    assert (parsed.action, parsed.reason) == (action, reason)
    assert parsed.format_ok == (reason == "ok")
    assert parsed.tag == ("action" if parsed.format_ok else "")


def test_thought_is_returned_without_blanks():
    assert TagSpec().parse("x<think> why \n</think><action>a</action>").thought == "why"
    assert TagSpec().parse("<action>a</action><think>why").thought == "<action>a</action><think>why"


def test_without_think_tag_thoughts_are_text():
    spec = TagSpec(think=None)
    assert spec.parse("<action>look</action>").action == "look"
    assert spec.parse("<think><action>look</action>").thought == ""


def test_optional_thought_is_still_dropped():
    spec = TagSpec(require_think=False)
    assert spec.parse("<action>look</action>").action == "look"
    assert spec.parse("<think><action>no</action></think><action>look</action>").action == "look"
    assert spec.parse("</think><action>look</action>").reason == "think_order"


def test_case_counts_only_on_request():
    assert TagSpec().parse("<Think>t</THINK><aCtion>look</Action>").tag == "action"
    spec = TagSpec(ignore_case=False, actions=("Act",))
    assert spec.parse("<think>t</think><Act>look</Act>").tag == "Act"
    assert spec.parse("<think>t</think><act>look</act>").reason == "action_missing"


def test_letters_that_fold_to_ascii_are_no_tags():
    spec = TagSpec(actions=("search",), require_think=False)
    assert spec.parse("<\u017fearch>q</\u017fearch>").reason == "action_missing"


def test_several_action_tags():
    spec = TagSpec(actions=("search", "answer"))
    assert spec.parse("<think>t</think><search>a</search><answer>b</answer>").tag == "answer"
    assert spec.parse("<think>t</think><search>what is <answer> here</search>").action == "what is <answer> here"
    assert spec.parse("<think>t</think><search>a <answer>b</answer> c</search>").reason == "action_multiple"
    crossed = spec.parse("<think>t</think><search>a<answer>b</search>c</answer>")
    assert (crossed.tag, crossed.action) == ("search", "a<answer>b")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("<think>t</think><action>a</action>", "ok"),
        ("<think>t</think><action>a</action><action>b</action>", "action_multiple"),
        ("<action>a</action><think>t</think><action>b</action>", "action_multiple"),
        ("<think>t</think><think>u</think><action>b</action>", "action_multiple"),
        ("<think><action>a</action></think><action>b</action>", "ok"),
    ],
)
def test_exactly_one(reply, reason):
    assert TagSpec(exactly_one=True).parse(reply).reason == reason


def test_env_action_keeps_the_tag_where_it_decides():
    one, two = TagSpec(), TagSpec(actions=("search", "answer"), require_think=False)
    assert one.env_action(one.parse("<think>t</think><action>up</action>")) == "up"
    assert two.env_action(two.parse("<ANSWER> Paris </ANSWER>")) == "<answer>Paris</answer>"
    assert two.env_action(two.parse("Paris")) == ""


def test_response_prefix_is_part_of_the_reply():
    spec = TagSpec(think=None, response_prefix="<action>", stop="</action>")
    assert spec.parse("go to desk 1</action>").action == "go to desk 1"
    assert spec.parse("<action>go to desk 1</action>").action == "go to desk 1"
    assert spec.parse("go to desk 1").reason == "action_missing"
    assert TagSpec(response_prefix="<think>").parse("t</think><action>a</action>").thought == "t"


def test_forbidden_scripts():
    spec = TagSpec(think=None, forbid_scripts=("Han", "Hiragana", "Katakana", "Hangul"))
    for word in ("看", "みる", "ミル", "\uff90\uff99", "보다"):
        assert spec.parse(f"<action>{word}</action>").reason == "script"
    for word in ("look", "regarder à côté", "смотри", "√ 、。"):
        assert spec.parse(f"<action>{word}</action>").reason == "ok"
    assert TagSpec(forbid_scripts=("Han",)).parse("<think>看</think><action>look</action>").reason == "script"
    assert TagSpec(forbid_scripts=("Han",)).parse("看<think>t</think><action>look</action>").reason == "ok"


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"actions": "action"}, TypeError, "write \\('action',\\)"),
        ({"actions": 3}, TypeError, "actions must be a tuple"),
        ({"actions": ()}, ValueError, "at least one tag"),
        ({"actions": ("<action>",)}, ValueError, "got '<action>'"),
        ({"actions": ("a", "A")}, ValueError, "differ"),
        ({"actions": ("think",)}, ValueError, "differ"),
        ({"think": ""}, ValueError, "got ''"),
        ({"require_think": "yes"}, TypeError, "require_think must be a bool"),
        ({"stop": ""}, ValueError, "stop must be"),
        ({"response_prefix": None}, TypeError, "response_prefix must be a str"),
        ({"response_prefix": "<action>"}, ValueError, "require_think=False"),
        ({"response_prefix": "</think>"}, ValueError, "does not open"),
        ({"forbid_scripts": ("Hann",)}, ValueError, "Did you mean 'Han'"),
        ({"forbid_scripts": "Han"}, TypeError, "forbid_scripts"),
    ],
)
def test_wrong_arguments_are_named(kwargs, error, text):
    with pytest.raises(error, match=text):
        TagSpec(**kwargs)


def test_lists_from_a_configuration_file_become_tuples():
    spec = TagSpec(actions=["search", "answer"])
    assert spec.actions == ("search", "answer")
    assert TagSpec(**dataclasses.asdict(spec)) == spec == pickle.loads(pickle.dumps(spec))
    assert hash(spec) == hash(TagSpec(actions=("search", "answer")))


@pytest.mark.parametrize("reply", [None, 3, b"<action>a</action>", ["a"]])
def test_a_reply_must_be_a_string(reply):
    with pytest.raises(TypeError, match="A reply must be a str"):
        TagSpec().parse(reply)


@pytest.mark.parametrize("piece", [*PIECES, "<", "</", "<think><action>", "<think></think>", "<action>a</action>"])
def test_long_hostile_replies_end(piece):
    for spec in (TagSpec(), TagSpec(think=None, actions=("action", "search", "answer"))):
        parsed = spec.parse(piece * (100_000 // piece.count("<")))
        assert parsed.format_ok == ("<action>a</action>" in piece and spec.think is None)


@settings(deadline=None)
@given(
    spec=st.sampled_from(SPECS),
    pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=30),
)
def test_any_text_is_read_and_the_same_text_reads_the_same(spec, pieces):
    text = "".join(pieces)
    parsed = spec.parse(text)
    assert parsed == spec.parse(text)
    assert parsed.format_ok == (parsed.reason == "ok") == bool(parsed.action) == bool(parsed.tag)
    assert parsed.action in spec.response_prefix + text


@settings(deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from(["<think>", "</think>", "<action>", "</action>", "<answer>", "</answer>", "word"]), max_size=40
    ),
    require_think=st.booleans(),
)
def test_nothing_inside_a_thought_is_ever_an_action(pieces, require_think):
    in_thought, text = False, ""
    for index, piece in enumerate(pieces):
        if piece == "<think>":
            in_thought = True
        elif piece == "</think>":
            in_thought = False
        text += f"{'T' if in_thought else 'x'}{index} " if piece == "word" else piece
    spec = TagSpec(actions=("action", "answer"), require_think=require_think)
    assert "T" not in spec.parse(text).action


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), min_size=1).filter(str.strip)


@settings(deadline=None)
@given(spec=st.sampled_from(SPECS), thought=PLAIN, action=PLAIN, data=st.data())
def test_a_reply_that_follows_the_instruction_parses(spec, thought, action, data):
    """The tags are taken from the instruction's own text, not from the specification."""
    pairs = re.findall(r"<(\w+)>\.\.\.</\1>", spec.instruction())
    think = pairs.pop(0) if spec.think is not None else None
    tag = data.draw(st.sampled_from(pairs))
    reply = f"<{think}>{thought}</{think}>\n" if think else ""
    reply += f"<{tag}>{action}</{tag}>"
    parsed = spec.parse(reply.removeprefix(spec.response_prefix))
    assert (parsed.reason, parsed.action, parsed.tag) == ("ok", action.strip(), tag)
    assert parsed.thought == (thought.strip() if think else "")


def test_an_example_in_the_prompt_or_a_page_is_no_answer_of_the_policy():
    """The parser gets the reply alone: what the prompt or a search result shows cannot be scored."""
    spec = TagSpec(actions=("search", "answer"), require_think=False)
    assert "<answer>" in spec.instruction()
    assert spec.parse("<search>capital of France</search>").tag == "search"
    assert spec.parse("I do not know").action == ""
