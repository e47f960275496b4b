"""verl's trainer with our advantages: a mixin over two of its methods, and the task runner that starts it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from agent_envs.errors import ServiceDownError
from agent_envs.trainers.advantages import compute_advantages
from agent_envs.trainers.verl.config import ESTIMATOR, estimator_config, sections
from agent_envs.trainers.verl.turns import (
    FIELD,
    Batch,
    batch_metrics,
    make_batch,
    share_of_errors,
    spread,
    turn_table,
)

_BATCHES_UNTIL_DOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class _PerTurn:
    """Advantages on their way through verl's estimator call, which hands over no column of ours."""

    batch: Batch
    advantages: list[float]
    targets: list[float]
    """For the critic; the advantages where there is none."""


_CURRENT: ContextVar[_PerTurn] = ContextVar("agent_envs_per_turn")


@register_adv_est(ESTIMATOR)  # type: ignore[untyped-decorator]
def turn_advantages(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, config: Any = None, **unused: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Estimator for verl: writes the advantage of each turn over that turn's tokens.

    Args:
        token_level_rewards: float [B, R]; only its shape and device are used, rewards are those of the turns.
        response_mask: [B, R], 1 on tokens of the policy.
        config: verl's ``algorithm:`` section.
        **unused: ``index`` and whatever else verl passes; groups come from the keys of the rows.

    Returns:
        Advantages and returns, both float32 [B, R].

    Raises:
        ValueError: If the trainer is not one of this module's.
    """
    try:
        current = _CURRENT.get()
    except LookupError:
        raise ValueError(
            f"algorithm.adv_estimator={ESTIMATOR!r} works in agent_envs.trainers.verl.trainer.AgentEnvsTrainer only: "
            "start the run with python -m agent_envs.trainers.verl RECIPE."
        ) from None
    shape = (int(response_mask.shape[0]), int(response_mask.shape[1]))
    both = [
        torch.from_numpy(spread(current.batch, values, shape)).to(token_level_rewards.device) * response_mask
        for values in (current.advantages, current.targets)
    ]
    return both[0], both[1]


class AgentEnvsMixin:
    """Hands the turns of a step to the estimator, and on a CPU puts the CPU workers in place."""

    config: Any
    role_worker_mapping: dict[Any, Any]
    _batches_in_error = 0

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()  # type: ignore[misc]
        if self.config.trainer.device == "cpu":
            from agent_envs.trainers.verl.cpu.worker import cpu_worker

            for role, cls in self.role_worker_mapping.items():
                self.role_worker_mapping[role] = cpu_worker(cls)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        section, options = sections(self.config)
        turns = make_batch(batch.keys, batch.tags, _records(batch))
        self._watch_errors(turns)
        metrics.update(batch_metrics(turns, group_size=section.group_size))
        columns = {}
        if section.estimator == "gae":
            columns["value"] = _values(batch, turns)
        table = turn_table(turns, similarity=section.similarity, **columns)
        result = compute_advantages(section.estimator, table, estimator_config(section, options))
        metrics.update({f"turns/{name}": value for name, value in result.stats.items()})
        metrics["turns/padding_rows"] = float(len(batch.keys) - len(turns.rows))
        sizes = table.step_group_sizes()
        metrics["turns/largest_group"] = float(sizes.max(initial=0))
        metrics["turns/nonzero_advantage_share"] = float(np.mean(result.total != 0.0)) if len(table) else 0.0
        per_turn = _PerTurn(
            batch=turns,
            advantages=result.total.tolist(),
            targets=result.parts.get("target", result.total).tolist(),
        )
        token = _CURRENT.set(per_turn)
        try:
            return super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        finally:
            _CURRENT.reset(token)

    def _watch_errors(self, turns: Batch) -> None:
        """Stop a run whose environments always fail."""
        share, first_error = share_of_errors(turns)
        self._batches_in_error = self._batches_in_error + 1 if share > 0.5 else 0
        if self._batches_in_error >= _BATCHES_UNTIL_DOWN:
            raise ServiceDownError(
                f"More than half of the episodes ended in an infrastructure error in {_BATCHES_UNTIL_DOWN} successive "
                f"steps. First error of the last one: {first_error}"
            )


class AgentEnvsTrainer(AgentEnvsMixin, PPOTrainerSync):  # type: ignore[misc]
    """Rollout and training take turns (``trainer.v1.trainer_mode=sync``)."""


class AgentEnvsColocateAsyncTrainer(AgentEnvsMixin, PPOTrainerColocateAsync):  # type: ignore[misc]
    """Prompts of the next step are played while others finish (``trainer.v1.trainer_mode=colocate_async``)."""


TRAINERS = {"sync": AgentEnvsTrainer, "colocate_async": AgentEnvsColocateAsyncTrainer}


def _records(batch: Any) -> list[Any]:
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
    # Depending on the storage backend the dicts come wrapped.
    return [getattr(item, "data", item)[FIELD] for item in list(data["extra_fields"])]


def _values(batch: Any, turns: Batch) -> Any:
    """Return the critic's value of each turn's prompt, float64 [n]: its output before the first token of the reply."""
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["values"])
    rows = [row.float().cpu().numpy() for row in data["values"].unbind()]
    return np.array([rows[place][span.start] for place, span in turns.spans()], np.float64)


@ray.remote(num_cpus=0)
class TaskRunner:
    """The Ray actor that :func:`verl.trainer.main_ppo.run_ppo` starts."""

    def run(self, config: Any) -> None:
        """Train as verl's own runner does, with our trainer."""
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ
        from verl.utils.logging_utils import configure_verl_logging

        configure_verl_logging()
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        tq.init(config.transfer_queue)
        trainer: Any = None
        succeeded = False
        try:
            trainer = TRAINERS[config.trainer.v1.trainer_mode](config=config)
            trainer.init()
            manager = AgentLoopManagerTQ.create(
                config=config,
                llm_client=trainer.get_llm_client(),
                teacher_client=trainer.get_teacher_client(),
                reward_loop_worker_handles=trainer.get_reward_handles(),
            )
            trainer.fit(manager)
            succeeded = True
        finally:
            try:
                if getattr(trainer, "logger", None) is not None:
                    trainer.logger.finish(exit_code=0 if succeeded else 1)
            finally:
                tq.close()
