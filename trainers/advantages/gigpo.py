"""GiGPO (arXiv 2505.10978): groups of equal states inside the group of trajectories."""

from __future__ import annotations

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.normalise import episode_part, normalise, returns_to_go
from agent_envs.trainers.advantages.registry import register_estimator
from agent_envs.trainers.advantages.table import Advantages, TurnTable, make_advantages


@register_estimator("gigpo")
def gigpo(table: TurnTable, config: EstimatorConfig) -> Advantages:
    """A = episode + w * step (Eq. 8): GRPO plus the return to go, normalised over the rows of the same node.

    A node is the pair (group, state); several visits of one trajectory count several times. A node with one row has
    step part 0, so without repeated states GiGPO is GRPO.

    Returns:
        `parts`: `episode` (Eq. 3), `step` (Eq. 7), `return` (Eq. 5).
    """
    config = config.resolve("gigpo", compat=("verl-agent", "g2po"))
    index = table.index
    episode = episode_part(index, config)
    returns = returns_to_go(index, config)
    step = normalise(returns, index.node, index.num_nodes, config)
    return make_advantages(table, episode + config.w * step, {"episode": episode, "step": step, "return": returns})
