"""Templates of ALFWorld, with the fields of the papers."""

from agent_envs.prompts.library.base import EnvPrompts, compact
from agent_envs.prompts.template import TemplateSet

_INTRO = "You act in a simulated household through text commands, in the ALFRED embodied environment.\n"
_END = """
These commands are possible now:
{admissible_actions}

Choose one of them as your next action, spelled as it stands in the list.
{format_instructions}"""

PROMPTS = EnvPrompts(
    sets={
        ("papers", "text"): TemplateSet(
            first=f"{_INTRO}\nYou see:\n{{current_observation}}\n{_END}",
            later=f"""{_INTRO}
Your task is to: {{task_description}}

Steps so far: {{step_count}}. The last {{history_length}} observations with your actions, oldest first:
{{action_history}}

Step {{current_step}}. You see:
{{current_observation}}
{_END}""",
        ),
        **compact(text="{task_description}\n{current_observation}"),
    },
)
