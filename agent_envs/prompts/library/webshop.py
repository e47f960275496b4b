"""Templates of WebShop, with the fields of the papers."""

from agent_envs.prompts.library.base import EnvPrompts, compact
from agent_envs.prompts.template import TemplateSet

_INTRO = """You shop on a web site on behalf of a customer: find a product that meets the request, choose its options \
and buy it.

The request: {task_description}
"""
_END = """
These actions are possible now:
{available_actions}

Choose one of them; for a search, write your own words between the brackets.
{format_instructions}"""

PROMPTS = EnvPrompts(
    sets={
        ("papers", "text"): TemplateSet(
            first=f"{_INTRO}\nThe page:\n{{current_observation}}\n{_END}",
            later=f"""{_INTRO}
Steps so far: {{step_count}}. The last {{history_length}} pages with your actions, oldest first:
{{action_history}}

Step {{current_step}}. The page now:
{{current_observation}}
{_END}""",
        ),
        **compact(),
    },
)
