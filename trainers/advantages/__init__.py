"""Advantage estimators for multi-turn agents as pure functions of a table of turns; numpy only.

`compute_advantages("gigpo", TurnTable(...), EstimatorConfig(...))` is all a trainer needs.
"""

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.g2po import g2po
from agent_envs.trainers.advantages.gae import gae, gagpo
from agent_envs.trainers.advantages.gigpo import gigpo
from agent_envs.trainers.advantages.graphgpo import graphgpo
from agent_envs.trainers.advantages.hgpo import hgpo
from agent_envs.trainers.advantages.registry import (
    compute_advantages,
    estimator_names,
    get_estimator,
    register_estimator,
)
from agent_envs.trainers.advantages.similarity import cluster_texts, merge_similar_states
from agent_envs.trainers.advantages.table import Advantages, TurnTable, table_stats
from agent_envs.trainers.advantages.trajectory import (
    dr_grpo,
    groups_with_spread,
    grpo,
    reinforce_pp,
    reinforce_pp_baseline,
    rloo,
)

__all__ = [
    "Advantages",
    "EstimatorConfig",
    "TurnTable",
    "cluster_texts",
    "compute_advantages",
    "dr_grpo",
    "estimator_names",
    "g2po",
    "gae",
    "gagpo",
    "get_estimator",
    "gigpo",
    "graphgpo",
    "groups_with_spread",
    "grpo",
    "hgpo",
    "merge_similar_states",
    "register_estimator",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rloo",
    "table_stats",
]
