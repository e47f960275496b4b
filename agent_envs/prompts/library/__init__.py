"""The shipped templates: one module per family of environments, texts only."""

from __future__ import annotations

from agent_envs.prompts.library import alfworld, app_world, cards, generic, search_qa, sokoban, webshop
from agent_envs.prompts.library.base import EnvPrompts

GENERIC = generic.PROMPTS
"""For environments without templates of their own."""

LIBRARY: dict[str, EnvPrompts] = {
    "ALFWorld": alfworld.PROMPTS,
    "AppWorld": app_world.PROMPTS,
    "Blackjack": cards.BLACKJACK,
    "EZPoints": cards.EZPOINTS,
    "NumberLine": cards.NUMBERLINE,
    "Points24": cards.POINTS24,
    "SearchQA": search_qa.PROMPTS,
    "Sokoban": sokoban.PROMPTS,
    "WebShop": webshop.PROMPTS,
}
"""Name of the environment, without namespace and version, to its templates."""

__all__ = ["GENERIC", "LIBRARY", "EnvPrompts"]
