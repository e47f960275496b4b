"""Templates: reading, filling, files."""

import pytest

from agent_envs.prompts import TemplateSet
from agent_envs.prompts.fields import FIELDS
from agent_envs.prompts.template import Template, check_tags

KNOWN = ("task", "history", "observation")


def render(text, **values):
    return "".join(piece for piece, _ in Template(text, KNOWN).pieces(values))


def test_braces_in_values_survive():
    value = '{"a": {task}} {0} {{x}} %s'
    assert render("<{observation}>", observation=value) == f"<{value}>"


def test_doubled_braces_are_literal():
    assert render('{{"a": {task}}} {{}}', task="t") == '{"a": t} {}'


def test_values_are_not_read_again_as_templates():
    assert render("{task} {observation}", task="{observation}", observation="o") == "{observation} o"


def test_a_line_with_an_empty_field_alone_vanishes():
    text = "a\n{history}\nb {history} c\n{task}{history}\nd\n{history}"
    assert render(text, history="", task="t") == "a\nb  c\nt\nd\n"
    assert render("{history}\n{task}", history="", task="t") == "t"
    assert render("{history}\n{task}", history="h", task="t") == "h\nt"


def test_unknown_field_lists_the_known_ones():
    with pytest.raises(ValueError, match="Did you mean 'observation'.*Known: history, observation, task, and info"):
        Template("{observatoin}", KNOWN)


@pytest.mark.parametrize("text", ["{}", "{0}", "{task.x}", "{task[0]}"])
def test_positional_fields_and_attributes_are_unknown(text):
    with pytest.raises(ValueError, match="Unknown template field"):
        Template(text, KNOWN)


@pytest.mark.parametrize("text", ["{task!r}", "{task:>9}", "{task:{task}}"])
def test_formats_are_refused(text):
    with pytest.raises(ValueError, match="write the name alone"):
        Template(text, KNOWN)


@pytest.mark.parametrize("text", ["{task", "task}", "{{task}"])
def test_unbalanced_braces_are_named(text):
    with pytest.raises(ValueError, match="unbalanced braces"):
        Template(text, KNOWN)


def test_template_must_be_text():
    with pytest.raises(TypeError, match="must be a str, got NoneType"):
        Template(None, KNOWN)


def test_every_documented_field_is_known():
    """The names of the papers' templates."""
    assert {
        "current_observation", "admissible_actions", "available_actions", "task_description", "step_count",
        "history_length", "action_history", "current_step", "memory_context", "text_formula",
        "supervisor_first_name", "supervisor_last_name", "supervisor_email", "supervisor_phone_number",
    } <= set(FIELDS)  # fmt: skip


def test_tags_of_a_template_must_be_the_parsers():
    known = ("format_instructions",)
    check_tags(Template("no tags at all", known), ("think", "action"))
    check_tags(Template("<think></think> <action></action> <b></b>", known), ("think", "action"))
    check_tags(Template("<information></information> {format_instructions}", known), ("think", "action"))
    with pytest.raises(ValueError, match="asks for <action>, <thinking> but the parser needs <think>"):
        check_tags(Template("<thinking></thinking><action></action>", known), ("think", "action"))


def test_file_with_two_sections(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("[first]\nHello\n{task}\n[later]\nAgain [first]\n{history}\n", encoding="utf-8")
    assert TemplateSet.from_file(path) == TemplateSet(first="Hello\n{task}", later="Again [first]\n{history}")


def test_file_without_sections_is_used_for_both(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("√ {task}\n", encoding="utf-8")
    assert TemplateSet.from_file(path) == TemplateSet(first="√ {task}", later="√ {task}")


@pytest.mark.parametrize(
    "text", ["[first]\na\n", "[later]\na\n", "x\n[first]\na\n[later]\nb\n", "[first]\na\n[first]\nb\n",
             "[first]\na\n[later]\nb\n[later]\nc\n"]
)  # fmt: skip
def test_incomplete_files_are_refused(tmp_path, text):
    path = tmp_path / "mine.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must hold one line \\[first\\] and one line \\[later\\]"):
        TemplateSet.from_file(path)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="nothing.txt' cannot be read"):
        TemplateSet.from_file(tmp_path / "nothing.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="cannot be read"):
        TemplateSet.from_file(tmp_path / "binary.txt")
