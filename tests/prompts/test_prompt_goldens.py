"""The text of every shipped template, on one short scripted episode per environment.

The episodes and the goldens in ``tests/data/prompts`` are our own. After a wanted change of wording, write the goldens
anew with ``REGENERATE_GOLDENS=1 pytest tests/prompts/test_prompt_goldens.py`` and read the difference.
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from agent_envs.memory import make_memory
from agent_envs.prompts import PromptBuilder
from agent_envs.prompts.library import GENERIC, LIBRARY
from agent_envs.tags import TagSpec

DATA = Path(__file__).resolve().parents[1] / "data" / "prompts"
EPISODES = json.loads((DATA / "episodes.json").read_text(encoding="utf-8"))
CASES = sorted((name, template, mode) for name, prompts in LIBRARY.items() for template, mode in prompts.sets)


def observe(episode, text, mode):
    if mode == "text":
        return text
    sentence = text if mode == "image_text" else "The picture shows the state."
    return {"image": np.zeros((*episode["image"], 3), np.uint8), "text": sentence}


def play(builder, episode):
    """Yield the prompt of each turn."""
    mode, info = builder.obs_mode, {**episode["info"], "turn": 0, "task_id": "toy/train/0"}
    observation = observe(episode, episode["first"], mode)
    memory = make_memory("window", **builder.memory_kwargs)
    memory.reset(task_id=info["task_id"], observation=observation)
    yield builder.build(observation=observation, info=info, memory=memory)
    for turn, (action, valid, text) in enumerate(episode["turns"]):
        observation, info = observe(episode, text, mode), {**info, "turn": turn + 1, "action_is_valid": valid}
        memory.store(observation=observation, action=action, info=info)
        yield builder.build(observation=observation, info=info, memory=memory)


def rendered(env_id, name, template, mode):
    builder = PromptBuilder.for_env(env_id, template=template, obs_mode=mode)
    first, *_, last = play(builder, EPISODES[name])
    return f"=== {template} {mode}, first turn\n{first.text}\n=== {template} {mode}, last turn\n{last.text}\n"


@pytest.mark.parametrize("name", [*sorted(LIBRARY), "Generic"])
def test_prompts_are_the_golden_ones(name):
    sets = GENERIC.sets if name == "Generic" else LIBRARY[name].sets
    env_id, episode = ("mine/Maze-v0", "Sokoban") if name == "Generic" else (f"agent_envs/{name}-v0", name)
    text = "".join(rendered(env_id, episode, *key) for key in sorted(sets))
    path = DATA / f"{name}.txt"
    if os.environ.get("REGENERATE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "template", "mode"), CASES)
def test_images_equal_markers_and_every_field_is_filled(name, template, mode):
    builder = PromptBuilder.for_env(f"agent_envs/{name}-v0", template=template, obs_mode=mode)
    for turn, prompt in enumerate(play(builder, EPISODES[name])):
        assert prompt.text.count("<image>") == len(prompt.images) == (0 if mode == "text" else 1)
        assert not re.search(r"\{[a-z_]+\}", prompt.text)
        assert prompt.num_turns_dropped == prompt.num_chars_cut == 0 and prompt.fits
        assert template == "compact" or builder.spec.instruction() in prompt.text
        assert turn == 0 or len(prompt.messages()) == 1


@pytest.mark.parametrize(("name", "template", "mode"), CASES)
def test_a_reply_to_the_prompt_parses(name, template, mode):
    """B11: tags are read off the prompt itself; compact prompts name none and leave them to the prefix."""
    builder = PromptBuilder.for_env(f"agent_envs/{name}-v0", template=template, obs_mode=mode)
    for prompt in play(builder, EPISODES[name]):
        pairs = re.findall(r"<(\w+)>\.\.\.</\1>", prompt.text)
        if template == "json":
            reply = re.search(r'\{"thoughts".*\}', prompt.text)[0]
        elif template == "compact":
            reply = f"x{builder.spec.stop}" if builder.spec.stop else f"<{builder.spec.actions[0]}>x</search>"
        else:
            think, action = pairs[0], pairs[-1]
            reply = f"<{think}>why</{think}><{action}>x</{action}>"
        assert builder.spec.parse(reply).reason == "ok"


@pytest.mark.parametrize(("name", "template"), sorted({case[:2] for case in CASES}))
def test_another_spec_changes_prompt_and_parser_together(name, template):
    spec = TagSpec(think="thinking", actions=("act",))
    builder = PromptBuilder.for_env(f"agent_envs/{name}-v0", template=template, spec=spec)
    assert builder.spec is spec
    first = next(play(builder, EPISODES[name])).text
    assert template == "compact" or ("<thinking>...</thinking>" in first and "<act>...</act>" in first)
    assert "<think>" not in first and builder.spec.parse("<thinking>t</thinking><act>x</act>").action == "x"


def test_memories_never_show_more_than_the_papers_history():
    for name in ("ALFWorld", "Sokoban", "WebShop"):
        assert LIBRARY[name].history_length == 2
    assert LIBRARY["SearchQA"].history_length is None
