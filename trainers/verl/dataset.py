"""Rows of (environment, split, task index, seed) as verl's dataset: computed when asked for, no files."""

from __future__ import annotations

import functools
from typing import Any, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch.utils.data

from agent_envs.core import AgentEnv
from agent_envs.tasks import derive_seed
from agent_envs.trainers.local.evaluation import make_panel
from agent_envs.trainers.recipe import AgentEnvsSection, build_section

AGENT_NAME = "agent_envs"
TRAIN, PANEL = "train", "panel"
"""Values of ``data.train_files`` and ``data.val_files``: which rows are wanted."""
# Rows never run out: the number of steps of a run is trainer.total_training_steps.
_ENDLESS = 2**31 - 1


class TaskDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """Training rows without end, or the rows of the evaluation panel, each task once.

    Training visits the tasks of the split in a new random order each time round, so that every task has been seen k
    times before one is seen k + 1 times. All members of a group get the same row, hence the same start.

    Args:
        data_files: ``"train"`` or ``"panel"``.
        tokenizer: Unused, part of verl's signature.
        processor: Unused, part of verl's signature.
        config: verl's ``data:`` section, which holds a copy of ``agent_envs:``.
        max_samples: Rows at most, -1 for all.

    Raises:
        ValueError: For other ``data_files``, or an unknown split.
    """

    def __init__(
        self, data_files: Any, tokenizer: Any = None, processor: Any = None, config: Any = None, max_samples: int = -1
    ) -> None:
        from omegaconf import OmegaConf

        self.section = build_section(
            AgentEnvsSection, OmegaConf.to_container(config.agent_envs, resolve=True), "agent_envs"
        )
        which = data_files if isinstance(data_files, str) else ",".join(data_files)
        if which not in (TRAIN, PANEL):
            raise ValueError(f"Data files of TaskDataset are {TRAIN!r} or {PANEL!r}, got {which!r}.")
        self._indices: tuple[int, ...] | None = None
        self._split = self.section.split
        if which == PANEL:
            panel = make_panel(self.section)
            self._split, self._indices = panel.split, panel.indices
            self._seed = derive_seed(self.section.seed, "evaluate")
        env = cast(AgentEnv, gym.make(self.section.env_id, **self.section.env_kwargs).unwrapped)
        try:
            if which == PANEL:
                panel.check(env)
            self._num_tasks = env.num_tasks(self._split)
        finally:
            env.close()
        size = _ENDLESS if self._indices is None else len(self._indices)
        self._size = size if max_samples < 0 else min(size, max_samples)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._size

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return one row in the form verl collates."""
        if self._indices is not None:
            index = self._indices[row]
            seed = derive_seed(self._seed, "panel", index)
        else:
            visit, place = divmod(row, self._num_tasks)
            index = int(_order(self._num_tasks, derive_seed(self.section.seed, "tasks", visit))[place])
            seed = derive_seed(self.section.seed, "row", row)
        return {
            "raw_prompt": [{"role": "user", "content": ""}],  # verl counts rows by it; the loop makes the prompts
            "agent_name": AGENT_NAME,
            "data_source": self.section.env_id.rpartition("/")[2],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "index": row,
            "extra_info": {"split": self._split, "task_index": index, "seed": seed},
        }


@functools.lru_cache(maxsize=2)
def _order(num_tasks: int, seed: int) -> npt.NDArray[np.int64]:
    return np.random.Generator(np.random.PCG64(seed)).permutation(num_tasks)
