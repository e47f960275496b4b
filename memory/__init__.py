"""Histories that an agent can recall: the memory protocol and the shipped memories."""

if __name__ == "memory":  # the checkout root is on sys.path: the bare name would load a second copy of every class
    raise ImportError("import agent_envs.memory, not memory")

from agent_envs.memory.base import Memory
from agent_envs.memory.household import HouseholdMemory
from agent_envs.memory.registry import make_memory, memory_names, register_memory
from agent_envs.memory.summary import SummaryMemory
from agent_envs.memory.window import NoMemory, WindowMemory
from agent_envs.memory.wrapper import MemoryObservation
from agent_envs.prompts.budget import Budget, MemoryView

__all__ = [
    "Budget",
    "HouseholdMemory",
    "Memory",
    "MemoryObservation",
    "MemoryView",
    "NoMemory",
    "SummaryMemory",
    "WindowMemory",
    "make_memory",
    "memory_names",
    "register_memory",
]
