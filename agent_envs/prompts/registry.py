"""Names of template sets: the shipped ones, those a user registers, and files."""

from __future__ import annotations

import os
from pathlib import Path

from agent_envs.errors import unknown_name
from agent_envs.prompts.library import GENERIC, LIBRARY, EnvPrompts
from agent_envs.prompts.template import TemplateSet

OBS_MODES = ("text", "image", "image_text")
"""The observation modes of environments: a str, or a dict with an image and a fixed sentence or the text."""

_ANY = "*"
_REGISTERED: dict[tuple[str, str], TemplateSet] = {}


def register_template(name: str, templates: TemplateSet | str | Path, *, env_id: str | None = None) -> None:
    """Give templates a name for ``PromptBuilder.for_env(env_id, template=name)``.

    Args:
        name: The new name. A name of the shipped sets may be used again: yours is found first.
        templates: The templates, or the path of their file (see :meth:`TemplateSet.from_file`).
        env_id: Id of the only environment they are for; None for all.

    Raises:
        ValueError: If other templates have the name already, or the file cannot be read.
    """
    if not isinstance(templates, TemplateSet):
        templates = TemplateSet.from_file(templates)
    known = _REGISTERED.setdefault((env_id or _ANY, name), templates)
    if known != templates:
        raise ValueError(f"Template {name!r} is registered already for {env_id or 'all'}, choose another name.")


def env_prompts(env_id: str) -> EnvPrompts:
    """Return the shipped templates and settings of an id; the generic ones for an unknown id."""
    namespace, _, rest = env_id.rpartition("/")
    name = rest.rsplit("-v", 1)[0]
    return LIBRARY.get(name, GENERIC) if namespace in ("agent_envs", "agent_envs:agent_envs") else GENERIC


def find_templates(env_id: str, template: str | Path, obs_mode: str) -> TemplateSet:
    """Return the templates that a name or a path stands for.

    Raises:
        ValueError: For an unknown name, an unreadable file, or an ``obs_mode`` that the named set does not cover.
        TypeError: If ``template`` is neither a str nor a path.
    """
    if not isinstance(template, (str, Path)):
        raise TypeError(f"template must be a name or the path of a file, got {template!r}.")
    for scope in (env_id, _ANY):
        if isinstance(template, str) and (scope, template) in _REGISTERED:
            return _REGISTERED[scope, template]
    sets = env_prompts(env_id).sets
    if isinstance(template, str) and (template, obs_mode) in sets:
        return sets[template, obs_mode]
    modes = [mode for name, mode in sets if name == template]
    if modes:
        raise ValueError(
            f"Template {template!r} of {env_id} has no obs_mode {obs_mode!r}. It has: {', '.join(sorted(modes))}."
        )
    if isinstance(template, Path) or os.sep in template or Path(template).suffix:
        return TemplateSet.from_file(template)
    names = {name for name, _ in sets} | {name for scope, name in _REGISTERED if scope in (env_id, _ANY)}
    raise unknown_name(f"template for {env_id}", template, names)
