"""Training on verl's own PPO trainer: agent loop, dataset and advantages of agent_envs, and a CPU backend for tests.

verl does the training; this package subclasses its trainer in two places and replaces none of its functions. Importing
it needs nothing of verl: :func:`run` checks the installation and says what is missing.
"""

from agent_envs.trainers.verl.config import recipe_names
from agent_envs.trainers.verl.main import run, show

__all__ = ["recipe_names", "run", "show"]
