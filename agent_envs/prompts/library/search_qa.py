"""Templates of Search QA, with the fields of the papers: the newest result closes ``memory_context``."""

from agent_envs.prompts.library.base import EnvPrompts
from agent_envs.prompts.template import TemplateSet
from agent_envs.tags import TagSpec

_INTRO = """You answer a question with the help of a search engine.

The question: {task_description}
"""
_END = """
If you still lack a fact, search for it; what is found comes back between <information> and </information>. If you \
know enough, answer in as few words as possible.
{format_instructions}"""

PROMPTS = EnvPrompts(
    sets={
        ("papers", "text"): TemplateSet(
            first=_INTRO + _END,
            later=f"{_INTRO}\nSteps so far: {{step_count}}\n{{memory_context}}\n{_END}",
        ),
        ("compact", "text"): TemplateSet(
            first="{task_description}\naction:",
            later="{task_description}\n{memory_context}\naction:",
            spec=TagSpec(think=None, actions=("search", "answer"), exactly_one=True),
        ),
    },
    spec=TagSpec(actions=("search", "answer"), require_think=False, exactly_one=True),
    style="steps",
    history_length=None,
)
