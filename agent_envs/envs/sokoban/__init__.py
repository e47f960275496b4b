"""Sokoban: push every box onto a target, on a walled grid shown as text or as an image."""

from agent_envs.envs.sokoban.env import SokobanEnv

__all__ = ["SokobanEnv"]
