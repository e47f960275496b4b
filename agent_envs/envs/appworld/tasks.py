"""Task lists: the datasets of a data folder, in the order of their files, filtered by difficulty."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_envs.envs.appworld.server.mini_build import TEMPLATES
from agent_envs.envs.appworld.server.mini_people import make_people
from agent_envs.keys import canonical_json, digest

DIFFICULTIES = (1, 2, 3)


def mini_splits() -> dict[str, int | str]:
    """Return the splits of the mini world, which are known without an installation."""
    sizes: dict[str, int | str] = dict.fromkeys(("train", "dev", "test"), 0)
    for template in TEMPLATES:
        sizes[template.split] = int(sizes[template.split]) + len(make_people())
    return sizes


def scenario_of(task_id: str) -> str:
    """Return the scenario of a task id: ``82e2fac`` of ``82e2fac_1`` or of ``appworld/dev/82e2fac_1``."""
    return task_id.rpartition("/")[2].partition("_")[0]


@dataclass(frozen=True, slots=True)
class TaskLists:
    """The tasks of one data folder."""

    folder: Path
    ids: Mapping[str, tuple[str, ...]]
    """Dataset name to task ids, in the order of its file."""

    def splits(self) -> dict[str, int | str]:
        """Return names with sizes; ``test`` is ``test_normal`` where the data has no ``test``."""
        sizes: dict[str, int | str] = {name: len(ids) for name, ids in self.ids.items()}
        if "test" not in sizes and "test_normal" in sizes:
            sizes["test"] = "test_normal"
        return sizes

    def specs(self, task_id: str) -> dict[str, Any]:
        """Return instruction, supervisor and time of a task."""
        specs = json.loads((self.folder / "tasks" / task_id / "specs.json").read_text(encoding="utf-8"))
        assert isinstance(specs, dict)
        return specs

    def solution(self, task_id: str) -> list[str]:
        """Return pieces of code that solve a task; empty for tasks that come without."""
        path = self.folder / "tasks" / task_id / "oracle.json"
        return [str(cell) for cell in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []

    def content(self, split: str) -> list[list[str]]:
        """Return ids and digests of the specifications, for fingerprints."""
        return _content(self.folder, self.ids[split])


@lru_cache(maxsize=32)
def _content(folder: Path, ids: tuple[str, ...]) -> list[list[str]]:
    lists = TaskLists(folder, {})
    return [[task_id, digest(canonical_json(lists.specs(task_id)), size=8)] for task_id in ids]


def difficulty_of(folder: Path, task_id: str) -> int:
    """Return the difficulty, 1 to 3, from the task's metadata."""
    path = folder / "tasks" / task_id / "ground_truth" / "metadata.json"
    return int(json.loads(path.read_text(encoding="utf-8"))["difficulty"])


def load_tasks(folder: Path, difficulties: Sequence[int] | None = None) -> TaskLists:
    """Read the datasets of a data folder.

    Args:
        folder: Folder with ``datasets`` and ``tasks``.
        difficulties: Keep tasks of these only, for example ``(1, 2)``; None keeps all.

    Raises:
        ValueError: A difficulty does not exist, or a split has no task left.
        FileNotFoundError: A dataset names a task that is not there.
    """
    wanted = None if difficulties is None else tuple(difficulties)
    if wanted is not None and (not wanted or any(level not in DIFFICULTIES for level in wanted)):
        raise ValueError(f"difficulties must be some of 1, 2 and 3, got {difficulties!r}. For example (1, 2).")
    return _load(folder, wanted)


@lru_cache(maxsize=16)
def _load(folder: Path, wanted: tuple[int, ...] | None) -> TaskLists:
    ids: dict[str, tuple[str, ...]] = {}
    for file in sorted((folder / "datasets").glob("*.txt")):
        lines = file.read_text(encoding="utf-8").split()
        names = [line.partition(":")[0] for line in lines]  # a tag may follow the id
        for name in names:
            if not (folder / "tasks" / name / "specs.json").is_file():
                raise FileNotFoundError(f"{file} names the task {name}, but {folder / 'tasks' / name} is not complete.")
        if wanted is not None:
            names = [name for name in names if difficulty_of(folder, name) in wanted]
        if not names:
            raise ValueError(f"Dataset {file} has no task of difficulty {wanted}.")
        ids[file.stem] = tuple(names)
    if "train" not in ids:
        raise FileNotFoundError(f"{folder / 'datasets'} has no train.txt; found: {', '.join(ids) or 'nothing'}.")
    return TaskLists(folder, ids)
