"""Templates for an environment that has none: task, history, observation, admissible actions if there are any."""

from agent_envs.prompts.library.base import EnvPrompts, compact
from agent_envs.prompts.template import TemplateSet

_END = """
{admissible_block}
Choose your next action.
{format_instructions}"""


def _set(observation: str) -> TemplateSet:
    return TemplateSet(
        first=f"{{task_block}}\nYou observe:\n{observation}\n{_END}",
        later=f"""{{task_block}}
Turns so far: {{step_count}}. The last {{history_length}}, oldest first:
{{action_history}}

Turn {{current_step}}. You observe:
{observation}
{_END}""",
    )


PROMPTS = EnvPrompts(
    sets={
        ("papers", "text"): _set("{current_observation}"),
        ("papers", "image"): _set("<image>"),
        ("papers", "image_text"): _set("<image>\n{current_observation}"),
        **compact(image=True),
    },
)
"""``papers`` is the name of the full set everywhere, also where no paper has the environment."""
