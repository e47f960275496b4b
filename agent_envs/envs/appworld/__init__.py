"""AppWorld: Python code against simulated everyday apps, executed in sandboxed processes of their own."""

from agent_envs.envs.appworld.env import AppWorldEnv

__all__ = ["AppWorldEnv"]
