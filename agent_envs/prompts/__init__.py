"""Prompts: templates with named fields, and the builder that fills them within a budget."""

from agent_envs.prompts.budget import Budget, MemoryView
from agent_envs.prompts.builder import Prompt, PromptBuilder
from agent_envs.prompts.registry import register_template
from agent_envs.prompts.template import TemplateSet

__all__ = ["Budget", "MemoryView", "Prompt", "PromptBuilder", "TemplateSet", "register_template"]
