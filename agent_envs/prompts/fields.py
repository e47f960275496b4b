"""The fields of templates, under the names that the papers use, and how each is filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_envs.prompts.budget import MemoryView, neutralise
from agent_envs.prompts.template import INFO_PREFIX
from agent_envs.tags import ReplySpec


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldContext:
    """What the fields of one prompt are filled from."""

    observation: str
    """Text of the current observation, possibly cut."""
    info: Mapping[str, Any]
    view: MemoryView
    history: str
    """The view's text, closed with the newest result where the template shows the observation nowhere else."""
    spec: ReplySpec

    def info_value(self, key: str, field: str) -> Any:
        """Return ``info[key]`` for a field.

        Raises:
            ValueError: If the environment does not give the key; the text names the field and the keys.
        """
        if key not in self.info:
            raise ValueError(
                f"Template field {{{field}}} needs info[{key!r}], which this environment does not give. "
                f"Its keys: {', '.join(sorted(self.info))}."
            )
        return self.info[key]


def _quoted(context: FieldContext, field: str, *, hidden: tuple[str, ...] = ()) -> str:
    actions = context.info_value("admissible_actions", field)
    return neutralise("\n".join(f"'{action}'" for action in actions if action not in hidden))


def _admissible_block(context: FieldContext) -> str:
    if "admissible_actions" not in context.info:
        return ""
    return f"Possible actions:\n{_quoted(context, 'admissible_block')}\n"


def _task_block(context: FieldContext) -> str:
    task = neutralise(str(context.info.get("task", "")))
    return f"Your task: {task}\n" if task else ""


def _supervisor(part: str) -> Callable[[FieldContext], str]:
    def value(context: FieldContext) -> str:
        supervisor = context.info_value("supervisor", f"supervisor_{part}")
        return neutralise(str(supervisor[part]))

    return value


FIELDS: dict[str, Callable[[FieldContext], str]] = {
    "action_history": lambda context: context.history,
    "admissible_actions": lambda context: _quoted(context, "admissible_actions", hidden=("help",)),
    "admissible_block": _admissible_block,
    "available_actions": lambda context: _quoted(context, "available_actions"),
    "current_observation": lambda context: neutralise(context.observation),
    "current_step": lambda context: str(context.info["turn"] + 1),
    "format_instructions": lambda context: context.spec.instruction(),
    "history_length": lambda context: str(context.view.num_turns),
    "memory_context": lambda context: context.history,
    "step_count": lambda context: str(context.info["turn"]),
    "supervisor_email": _supervisor("email"),
    "supervisor_first_name": _supervisor("first_name"),
    "supervisor_last_name": _supervisor("last_name"),
    "supervisor_phone_number": _supervisor("phone_number"),
    "task_block": _task_block,
    "task_description": lambda context: neutralise(str(context.info_value("task", "task_description"))),
    "text_formula": lambda context: neutralise(context.observation),
}
"""Field name to the function that fills it."""

HISTORY_FIELDS = frozenset({"action_history", "memory_context"})
OBSERVATION_FIELDS = frozenset({"current_observation", "text_formula"})


def fill(names: frozenset[str], context: FieldContext) -> dict[str, str]:
    """Return the values of the named fields; others are not computed."""
    values = {}
    for name in names:
        if name.startswith(INFO_PREFIX):
            values[name] = neutralise(str(context.info_value(name.removeprefix(INFO_PREFIX), name)))
        else:
            values[name] = FIELDS[name](context)
    return values
