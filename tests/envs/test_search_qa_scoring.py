"""Search QA: normalisation, scores, rewards, actions and the texts of observations."""

import json
import math
import random
import re
import string

import pytest

from agent_envs.envs.search_qa.actions import parse_action
from agent_envs.envs.search_qa.scoring import contains_answer, exact_match, f1_score, normalise, otc_factor
from agent_envs.envs.search_qa.texts import neutralise_tags, refusal_text, results_text
from agent_envs.retriever.base import Hit


@pytest.mark.parametrize(
    ("text", "unicode", "ascii"),
    [
        ("The Beatles", "beatles", "beatles"),
        ("an  apple\ta day", "apple day", "apple day"),
        ("theatre", "theatre", "theatre"),
        ("1,000", "1000", "1000"),
        ("Jean-Luc / Smith", "jeanluc smith", "jeanluc smith"),
        ("U.S.A. \u2014 \u201cx\u201d", "usa x", "usa \u2014 \u201cx\u201d"),
        ("\uff21\uff22\uff23", "abc", "\uff41\uff42\uff43"),
        ("5\u20ac + 3", "5 3", "5\u20ac 3"),
        ("Dvo\u0159\u00e1k", "dvo\u0159\u00e1k", "dvo\u0159\u00e1k"),
        ("the", "", ""),
        ("...", "", ""),
    ],
)
def test_normalisation(text, unicode, ascii):
    assert normalise(text) == unicode
    assert normalise(text, "ascii") == ascii


def test_exact_match_takes_any_answer_and_no_empty_one():
    assert exact_match("the Paris.", ["London", "paris"])
    assert not exact_match("Paris, France", ["Paris"])
    assert not exact_match("", ["the"]) and not exact_match("the", ["The"])


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("Barack Obama", ["Obama"], 2 / 3),
        ("obama obama", ["Obama"], 2 / 3),
        ("yes", ["no"], 0.0),
        ("yes it is", ["yes"], 0.0),
        ("yes", ["Yes."], 1.0),
        ("x", ["y", "x z"], 2 / 3),
        ("", ["x"], 0.0),
        ("the", ["the"], 0.0),
    ],
)
def test_f1(prediction, answers, expected):
    assert f1_score(prediction, answers) == pytest.approx(expected)


def test_containment_wants_both_sides_not_empty():
    assert contains_answer("It is Paris, France.", ["paris"])
    assert not contains_answer("Paris", ["the"]) and not contains_answer("", ["Paris"])


def test_ascii_exact_match_is_the_published_rule_on_random_ascii_texts():
    def published(text):  # SQuAD: lower, punctuation, articles, blanks
        text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    rng = random.Random(0)
    pieces = ["the", "A", "an", "Paris", "new-york", "U.S.", "1,000", "it's", " ", "The", "x_y", "don't", "(a)"]
    for _ in range(500):
        one, two = (" ".join(rng.choices(pieces, k=rng.randint(1, 3))) for _ in range(2))
        if published(one):
            assert exact_match(one, [two], "ascii") == (published(one) == published(two)), (one, two)


def test_otc_reward_by_hand():
    assert otc_factor(0, 4) == 1.0
    assert otc_factor(1, 4) == pytest.approx(math.cos(math.pi / 6))
    assert otc_factor(3, 4) == pytest.approx(math.cos(3 * math.pi / 10))
    assert [otc_factor(m, 4) for m in range(4)] == sorted((otc_factor(m, 4) for m in range(4)), reverse=True)


@pytest.mark.parametrize(
    ("text", "kind", "content", "refusal"),
    [
        ("<search>q</search>", "search", "q", ""),
        ("<ANSWER> Paris\n</Answer>", "answer", "Paris", ""),
        ("<search>two\nlines</search>", "search", "two\nlines", ""),
        ("search[q]", "search", "q", ""),
        ("Answer[ a [b] ] ", "answer", "a [b]", ""),
        ("<think>I could <search> or not</think><search>q</search>", "search", "q", ""),
        ("<think><answer>x</answer></think><search>q</search>", "search", "q", ""),
        ("<think><answer>x</answer></think>", "", "", "action_missing"),
        ("just text", "", "", "action_missing"),
        ("", "", "", "action_missing"),
        ("<answer>Paris", "", "", "action_missing"),
        ("<search>  </search>", "", "", "action_empty"),
        ("search[ ]", "", "", "action_empty"),
        ("<search>a</search><answer>b</answer>", "", "", "action_multiple"),
        ("<answer>a</answer><answer>b</answer>", "", "", "action_multiple"),
        ("<think>open <answer>x</answer>", "", "", "think_unclosed"),
        ("</think><answer>x</answer>", "", "", "think_order"),
    ],
)
def test_action_table(text, kind, content, refusal):
    action = parse_action(text)
    assert (action.kind, action.text, action.refusal) == (kind, content, refusal)


def test_lenient_takes_the_last_block():
    assert parse_action("<search>a</search><answer>b</answer>", lenient=True).text == "b"


HITS = [Hit("1", 2.0, '"Evan Morris"\nEvan L. Morris\nwas a lobbyist'), Hit("2", 1.0, "no title")]


def test_search_r1_format_byte_for_byte():
    assert results_text(HITS, passage_format="search_r1", max_chars=2000) == (
        '<information>Doc 1(Title: "Evan Morris") Evan L. Morris\nwas a lobbyist\nDoc 2(Title: no title)</information>'
    )


def test_verl_agent_format_byte_for_byte():
    text = results_text([Hit("1", 1.0, '"\u00c9"\nx')], passage_format="verl_agent", max_chars=2000)
    assert text == '<information>{"result": "Doc 1: \\"\\u00c9\\"\\nx\\n"}</information>'
    empty = results_text([], passage_format="verl_agent", max_chars=2000)
    assert json.loads(empty.removeprefix("<information>").removesuffix("</information>")) == {
        "result": "No search results found."
    }


def test_passages_are_cut():
    assert results_text([Hit("1", 1.0, "ab\ncdef")], passage_format="search_r1", max_chars=5).endswith(
        "cd</information>"
    )


@pytest.mark.parametrize("tag", ["<answer>", "</ANSWER>", "< /search >", "<information>", "</think>", "<Action/>"])
def test_tags_in_passages_are_broken(tag):
    assert neutralise_tags(f"x {tag} y") == f"x <\u200b{tag[1:]} y"
    assert parse_action(neutralise_tags(f"{tag}Paris</answer>")).refusal


def test_other_angle_brackets_stay():
    assert neutralise_tags("a < b, <b>, <answers>, <-- answer>") == "a < b, <b>, <answers>, <-- answer>"


def test_refusals_say_why_and_what_to_write():
    assert refusal_text("action_empty") == (
        "Your previous action was invalid: the text between the tags is empty. "
        "Write <search>query</search> or <answer>text</answer>."
    )
