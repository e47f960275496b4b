"""The prompt builder: choice of templates, budget, images, errors."""

import re

import numpy as np
import pytest
from PIL import Image

from agent_envs.memory import make_memory
from agent_envs.prompts import Budget, MemoryView, PromptBuilder, TemplateSet, register_template
from agent_envs.tags import TagSpec

INFO = {"turn": 0, "task": "find it", "task_id": "toy/train/0"}
LATER = {**INFO, "turn": 3}
SIMPLE = TemplateSet(first="F {current_observation}", later="{action_history}|{current_observation}|")


class Shows:
    """A memory with a fixed view."""

    def __init__(self, view):
        self.view = view

    def render(self, budget):
        return self.view if budget.fits(self.view.text) else MemoryView()


def memory_with(num_turns, text="seen", **kwargs):
    memory = make_memory("window", **{"history_length": None, **kwargs})
    memory.reset(task_id="toy/train/0", observation=f"{text} 1")
    for turn in range(num_turns):
        memory.store(observation=f"{text} {turn + 2}", action=f"do {turn + 1}", info={"action_is_valid": True})
    return memory


def frame(shade=0):
    return np.full((4, 6, 3), shade, np.uint8)


def test_first_turn_and_later_turns():
    builder = PromptBuilder(templates=SIMPLE)
    assert builder.build(observation="o", info=INFO).text == "F o"
    assert builder.build(observation="o", info=LATER).text == "|o|"
    prompt = builder.build(observation="o", info=LATER, memory=memory_with(2))
    assert prompt.text == "[Observation 1: 'seen 1', Action 1: 'do 1']\n[Observation 2: 'seen 2', Action 2: 'do 2']|o|"
    assert (prompt.num_turns_shown, prompt.num_turns_dropped, prompt.num_chars_cut, prompt.fits) == (2, 0, 0, True)
    assert prompt.length == len(prompt.text)


def test_step_fields_count_turns():
    templates = TemplateSet(first="-", later="{step_count} {current_step} {history_length} {action_history}")
    prompt = PromptBuilder(templates=templates).build(observation="o", info=LATER, memory=memory_with(3))
    assert prompt.text.startswith("3 4 3 ")


def test_history_is_closed_by_the_result_where_the_template_has_no_other_place_for_it():
    builder = PromptBuilder.for_env("agent_envs/SearchQA-v0")
    memory = make_memory("window", **builder.memory_kwargs)
    memory.reset(task_id="q", observation="Who?")
    memory.store(observation="<information>one</information>", action="<search>a</search>", info={})
    memory.store(observation="<information>two</information>", action="<search>b</search>", info={})
    prompt = builder.build(observation="<information>two</information>", info={**LATER, "turn": 2}, memory=memory)
    assert (
        "Step 1: <search>a</search> <information>one</information>\n"
        "Step 2: <search>b</search> <information>two</information>\n"
    ) in prompt.text
    without = builder.build(observation="<information>two</information>", info={**LATER, "turn": 2})
    assert "so far: 2\n<information>two</information>\n" in without.text


def test_unicode_and_braces_of_an_observation_survive():
    text = '{"a": {b}} {{c}} √ 看 \t %s \\n'
    assert PromptBuilder(templates=SIMPLE).build(observation=text, info=INFO).text == f"F {text}"


def test_info_fields():
    templates = TemplateSet(first="{info.bag}", later="{info.bag}")
    builder = PromptBuilder(templates=templates)
    assert builder.build(observation="o", info={**INFO, "bag": ["key"]}).text == "['key']"
    with pytest.raises(ValueError, match="needs info\\['bag'\\].*Its keys: task, task_id, turn"):
        builder.build(observation="o", info=INFO)


def test_admissible_actions_are_quoted_without_help():
    templates = TemplateSet(first="{admissible_actions}", later="{available_actions}")
    builder = PromptBuilder(templates=templates)
    info = {**INFO, "admissible_actions": ["look", "help", "go {x}"]}
    assert builder.build(observation="o", info=info).text == "'look'\n'go {x}'"
    assert builder.build(observation="o", info={**info, "turn": 1}).text == "'look'\n'help'\n'go {x}'"
    with pytest.raises(ValueError, match="does not give"):
        builder.build(observation="o", info=INFO)


def test_generic_templates_show_what_the_environment_gives():
    builder = PromptBuilder.for_env("mine/Maze-v3")
    assert builder.memory_kwargs == {"history_length": 2, "style": "lines"}
    text = builder.build(observation="a wall", info=INFO).text
    assert "find it" in text and "a wall" in text and builder.spec.instruction() in text and "Possible" not in text
    text = builder.build(observation="a wall", info={**INFO, "task": "", "admissible_actions": ["left"]}).text
    assert "task" not in text and "Possible actions:\n'left'\n" in text


# ------------------------------------------------------------------ budget


def test_oldest_turns_go_first():
    builder = PromptBuilder(templates=SIMPLE, budget=Budget(100))
    prompt = builder.build(observation="now", info=LATER, memory=memory_with(5))
    assert prompt.fits and prompt.length <= 100
    assert (prompt.num_turns_shown, prompt.num_turns_dropped, prompt.num_chars_cut) == (2, 3, 0)
    assert "do 4" in prompt.text and "do 5" in prompt.text and "do 3" not in prompt.text and "now" in prompt.text


def test_then_the_observation_is_cut_in_the_middle_and_counted():
    builder = PromptBuilder(templates=SIMPLE, budget=Budget(80))
    text = "a" * 100 + "b" * 100
    prompt = builder.build(observation=text, info=LATER, memory=memory_with(1))
    assert prompt.fits and 78 <= prompt.length <= 80
    assert (prompt.num_turns_shown, prompt.num_turns_dropped) == (0, 1)
    match = re.fullmatch(r"\|(a+)\[\.\.\. (\d+) characters cut \.\.\.\](b+)\|", prompt.text)
    assert abs(len(match[1]) - len(match[3])) <= 1
    assert prompt.num_chars_cut == int(match[2]) == 200 - len(match[1]) - len(match[3])


def test_cut_result_in_a_template_that_shows_it_in_the_history():
    builder = PromptBuilder.for_env("agent_envs/SearchQA-v0")
    memory = make_memory("window", **builder.memory_kwargs)
    memory.reset(task_id="q", observation="Who?")
    memory.store(observation="x" * 5000, action="<search>a</search>", info={})
    tight = PromptBuilder.for_env("agent_envs/SearchQA-v0", budget=Budget(1000))
    prompt = tight.build(observation="x" * 5000, info={**LATER, "turn": 1}, memory=memory)
    assert prompt.fits and prompt.num_chars_cut > 4000 and prompt.num_turns_dropped == 1


@pytest.mark.parametrize("limit", range(0, 60))
def test_every_limit_is_kept_or_reported(limit):
    builder = PromptBuilder(templates=SIMPLE, budget=Budget(limit))
    prompt = builder.build(observation="o" * 50, info=LATER, memory=memory_with(2))
    assert prompt.fits == (prompt.length <= limit)
    if not prompt.fits:
        assert prompt.num_chars_cut == 0 and "o" * 50 in prompt.text


def test_tokens_of_a_counter_that_does_not_add_up():
    """Joining texts may cost tokens of its own: the builder measures the whole prompt."""

    def count(text):
        return len(text.split()) + 3 * text.count("]|")

    builder = PromptBuilder(templates=SIMPLE, budget=Budget(16, count))
    prompt = builder.build(observation="now", info=LATER, memory=memory_with(5))
    assert prompt.fits and prompt.length == count(prompt.text) <= 16 and prompt.num_turns_shown == 1


def test_budget_arguments_are_checked():
    with pytest.raises(ValueError, match="limit must be >= 0, got -1"):
        Budget(-1)
    with pytest.raises(TypeError, match="limit must be an int or None, got 1.5"):
        Budget(1.5)
    with pytest.raises(TypeError, match="count must be a function"):
        Budget(1, "chars")
    with pytest.raises(TypeError, match="budget must be a Budget"):
        PromptBuilder(templates=SIMPLE, budget=100)


# ------------------------------------------------------------------ images


def test_messages_without_images():
    prompt = PromptBuilder(templates=SIMPLE).build(observation="o", info=INFO)
    assert prompt.messages() == [{"role": "user", "content": "F o"}]


def test_messages_with_images_have_one_part_per_marker():
    templates = TemplateSet(first="<image>{current_observation}", later="{action_history}\n<image>")
    builder = PromptBuilder(templates=templates, obs_mode="image_text")
    prompt = builder.build(observation={"image": frame(9), "text": "o"}, info=INFO)
    [message] = prompt.messages()
    assert [part["type"] for part in message["content"]] == ["image", "text"]
    assert isinstance(message["content"][0]["image"], Image.Image) and message["content"][0]["image"].size == (6, 4)
    past = Shows(
        MemoryView(text="before <image> and <image>", images=(frame(1), Image.new("RGB", (2, 2))), num_turns=2)
    )
    prompt = builder.build(observation={"image": frame(3), "text": "o"}, info=LATER, memory=past)
    assert prompt.text.count("<image>") == len(prompt.images) == 3
    assert [image.getpixel((0, 0))[0] for image in prompt.images] == [1, 0, 3]
    kinds = [part["type"] for part in prompt.messages()[0]["content"]]
    assert kinds == ["text", "image", "text", "image", "text", "image"]


def test_markers_in_texts_of_the_environment_place_no_image():
    builder = PromptBuilder(templates=SIMPLE)
    memory = memory_with(1, text="<image>")
    prompt = builder.build(observation="see <image>", info=LATER, memory=memory)
    assert "<image>" not in prompt.text and "see [image]" in prompt.text and prompt.images == ()


def test_image_frames_in_a_text_history_become_a_marker():
    memory = make_memory("window")
    memory.reset(task_id="t", observation={"image": frame(), "text": "grid"})
    memory.store(observation={"image": frame(), "text": ""}, action="up", info={})
    memory.store(observation={"image": frame(), "text": ""}, action="left", info={})
    view = memory.render(Budget())
    assert view.images == ()
    assert view.text.splitlines() == [
        "[Observation 1: '[image] grid', Action 1: 'up']", "[Observation 2: '[image]', Action 2: 'left']"
    ]  # fmt: skip


def test_observation_and_obs_mode_must_agree():
    with pytest.raises(ValueError, match="obs_mode 'text', the observation has an image"):
        PromptBuilder(templates=SIMPLE).build(observation={"image": frame(), "text": ""}, info=INFO)
    builder = PromptBuilder.for_env("agent_envs/Sokoban-v0", obs_mode="image")
    with pytest.raises(ValueError, match="obs_mode 'image', the observation has no image"):
        builder.build(observation="o", info=INFO)
    with pytest.raises(TypeError, match="uint8"):
        builder.build(observation={"image": frame().astype(float), "text": ""}, info=INFO)
    with pytest.raises(TypeError, match="a str under 'text', got int"):
        PromptBuilder(templates=SIMPLE).build(observation=3, info=INFO)


def test_templates_must_place_the_image():
    with pytest.raises(ValueError, match="first template must hold 1 <image> for obs_mode 'image', it holds 0"):
        PromptBuilder(templates=SIMPLE, obs_mode="image")
    with pytest.raises(ValueError, match="first template must hold 0 <image>"):
        PromptBuilder(templates=TemplateSet(first="<image>", later=""), obs_mode="text")


def test_a_view_must_hold_as_many_images_as_markers():
    with pytest.raises(ValueError, match="has 1 <image> markers but 0 images"):
        MemoryView(text="<image>")


# ------------------------------------------------------------------ choice by name


def test_shipped_names_and_modes():
    assert PromptBuilder.for_env("agent_envs/EZPoints-v0").obs_mode == "image_text"
    assert PromptBuilder.for_env("agent_envs:agent_envs/Sokoban-v0").obs_mode == "text"
    assert PromptBuilder.for_env("agent_envs/EZPoints-v0", template="json").spec.ask == "json"
    compact = PromptBuilder.for_env("agent_envs/Sokoban-v0", template="compact")
    assert compact.build(observation="o", info=INFO).text == "o\naction:"
    assert compact.build(observation="o", info=LATER).text == "o\naction:"
    assert compact.build(observation="o", info=INFO).response_prefix == compact.spec.response_prefix == "<action>"


def test_unknown_names_are_helped():
    with pytest.raises(ValueError, match="Unknown template for agent_envs/Sokoban-v0 'compct'. Did you mean 'compact'"):
        PromptBuilder.for_env("agent_envs/Sokoban-v0", template="compct")
    with pytest.raises(ValueError, match="Unknown obs_mode 'pixels'"):
        PromptBuilder.for_env("agent_envs/Sokoban-v0", obs_mode="pixels")
    with pytest.raises(ValueError, match="'papers' of agent_envs/ALFWorld-v0 has no obs_mode 'image'. It has: text"):
        PromptBuilder.for_env("agent_envs/ALFWorld-v0", obs_mode="image")
    for missing in ("no/such/file", "missing.txt", "up/down " * 100):
        with pytest.raises(ValueError, match="cannot be read"):
            PromptBuilder.for_env("agent_envs/Sokoban-v0", template=missing)
    with pytest.raises(TypeError, match="template must be a name or the path of a file, got None"):
        PromptBuilder.for_env("agent_envs/Sokoban-v0", template=None)


def test_user_file_and_user_spec(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("[first]\n{current_observation} {format_instructions}\n[later]\n{action_history}", encoding="utf-8")
    spec = TagSpec(think="why", actions=("do",))
    for template in (path, str(path)):
        builder = PromptBuilder.for_env("agent_envs/Sokoban-v0", template=template, spec=spec)
        assert builder.build(observation="o", info=INFO).text == f"o {spec.instruction()}"
        assert builder.spec is spec


def test_template_that_names_other_tags_than_the_spec_is_refused(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("Think in <thinking></thinking>, act in <action></action>.", encoding="utf-8")
    with pytest.raises(ValueError, match="the parser needs <think>"):
        PromptBuilder.for_env("agent_envs/Sokoban-v0", template=path)
    PromptBuilder.for_env("agent_envs/Sokoban-v0", template=path, spec=TagSpec(think="thinking"))


def test_registered_templates(tmp_path):
    mine = TemplateSet(first="mine {current_observation}", later="{action_history}", style="steps")
    register_template("test-mine", mine)
    register_template("test-mine", mine)
    builder = PromptBuilder.for_env("agent_envs/WebShop-v0", template="test-mine")
    assert builder.build(observation="o", info=INFO).text == "mine o"
    assert builder.memory_kwargs == {"history_length": 2, "style": "steps"}
    with pytest.raises(ValueError, match="registered already for all"):
        register_template("test-mine", SIMPLE)
    path = tmp_path / "a.txt"
    path.write_text("special", encoding="utf-8")
    register_template("test-mine", path, env_id="mine/Maze-v0")
    assert (
        PromptBuilder.for_env("mine/Maze-v0", template="test-mine").build(observation="o", info=INFO).text == "special"
    )
    with pytest.raises(ValueError, match="Known: .*test-mine"):
        PromptBuilder.for_env("mine/Maze-v0", template="test-nine!")
