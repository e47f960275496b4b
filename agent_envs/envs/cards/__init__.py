"""Card and number games with drawn frames: EZPoints, Points24, NumberLine and Blackjack."""

from agent_envs.envs.cards.actions import Vocabulary
from agent_envs.envs.cards.blackjack import BlackjackEnv
from agent_envs.envs.cards.numberline import NumberLineEnv
from agent_envs.envs.cards.points import EZPointsEnv, Points24Env

__all__ = [
    "BlackjackEnv",
    "EZPointsEnv",
    "NumberLineEnv",
    "Points24Env",
    "Vocabulary",
]
