"""Question answering with a search tool."""

from agent_envs.envs.search_qa.env import SearchQAEnv

__all__ = ["SearchQAEnv"]
