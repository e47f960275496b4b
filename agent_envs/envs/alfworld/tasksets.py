"""Where the games of an environment come from: the built-in generator or a data folder."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from agent_envs.envs.alfworld.data import (
    ENV_VARIABLE,
    GAME_FILE,
    TRAJECTORY_FILE,
    GameEntry,
    GameFolder,
    find_folder,
    load_split,
)
from agent_envs.envs.alfworld.game import GameFileError
from agent_envs.envs.alfworld.generator import (
    FIRST_SEED,
    GENERATOR_VERSION,
    SPLIT_COUNTS,
    GameSpec,
    generate_game,
    split_spec,
)
from agent_envs.envs.alfworld.generator_tables import SIZES
from agent_envs.errors import unknown_name

GENERATED = "generated"
GENERATED_SPLITS: Mapping[str, int | str] = {
    **{split: sum(counts) for split, counts in SPLIT_COUNTS.items()},
    "test": "valid_unseen",
}


class TaskSet(Protocol):
    """The games behind the splits of an environment."""

    @property
    def splits(self) -> Mapping[str, int | str]:
        """Split names with sizes, aliases with targets."""

    def name(self, split: str, index: int) -> str:
        """Return the folder of a game, relative to its split."""

    def task_type(self, split: str, index: int) -> str:
        """Return the task type of a game."""

    def source(self, split: str, index: int) -> Path | bytes:
        """Return the path or the content of a game file."""

    def sentences(self, split: str, index: int) -> list[str]:
        """Return what people wrote about the task."""

    def describe(self, split: str) -> dict[str, Any]:
        """Return a JSON value that determines the games of a split."""


def open_tasks(size: str, data_dir: str | os.PathLike[str] | None) -> TaskSet:
    """Return the games that the arguments and the environment variable name.

    Raises:
        ValueError: Unknown size, or a size other than `full` together with a data folder.
        FileNotFoundError: The data folder is missing or holds no games.
    """
    if size not in SIZES:
        raise unknown_name("size", size, SIZES)
    if data_dir is None and size == "full":
        data_dir = os.environ.get(ENV_VARIABLE) or None
        if data_dir is not None:
            try:
                return FolderTasks(find_folder(data_dir))
            except FileNotFoundError as error:
                if _set_by_the_package(data_dir):
                    return GeneratedTasks(size)
                raise FileNotFoundError(
                    f"{error} The folder comes from the environment variable {ENV_VARIABLE}; without the variable, or "
                    f"with data_dir={GENERATED!r}, generated games are played."
                ) from None
    if data_dir is None or data_dir == GENERATED:
        return GeneratedTasks(size)
    if size != "full":
        raise ValueError(f"size={size!r} is for generated games, leave it out with data_dir={str(data_dir)!r}.")
    return FolderTasks(find_folder(data_dir))


def _set_by_the_package(data_dir: str) -> bool:
    """Return whether importing the package `alfworld` set the variable: it names its own folder, games or not."""
    default = Path("~/.cache/alfworld").expanduser()
    return any(name.partition(".")[0] == "alfworld" for name in sys.modules) and Path(data_dir) == default


class GeneratedTasks:
    """The fixed splits of generated games; a game is generated when it is first asked for.

    Args:
        size: `full` or `small`.
    """

    def __init__(self, size: str) -> None:
        self._size = size

    @property
    def splits(self) -> Mapping[str, int | str]:
        """Split names with sizes, aliases with targets."""
        return GENERATED_SPLITS

    def name(self, split: str, index: int) -> str:
        """Return the folder name; it ends in size and seed."""
        return generate_game(split_spec(split, index, self._size)).name

    def task_type(self, split: str, index: int) -> str:
        """Return the task type of a game."""
        return split_spec(split, index, self._size).task_type

    def source(self, split: str, index: int) -> bytes:
        """Return the content of a game file."""
        return _content(split_spec(split, index, self._size))

    def sentences(self, split: str, index: int) -> list[str]:
        """Return nothing: no person described these games."""
        return []

    def describe(self, split: str) -> dict[str, Any]:
        """Return generator version, size and seeds."""
        return {
            "generator_version": GENERATOR_VERSION,
            "game_size": self._size,
            "first_seed": FIRST_SEED[split],
            "counts": list(SPLIT_COUNTS[split]),
        }


@lru_cache(1024)
def _content(spec: GameSpec) -> bytes:
    return generate_game(spec).content()


class FolderTasks:
    """The games of a data folder. A split is read when it is first asked for, once per process.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: GameFolder) -> None:
        self._folder = folder
        self._splits = _FolderSplits(folder)

    @property
    def splits(self) -> Mapping[str, int | str]:
        """Split names with sizes, aliases with targets."""
        return self._splits

    def _entry(self, split: str, index: int) -> GameEntry:
        return load_split(self._folder.splits[split], split, self._folder.official).games[index]

    def _file(self, split: str, index: int, name: str) -> Path:
        return self._folder.splits[split] / self._entry(split, index).name / name

    def name(self, split: str, index: int) -> str:
        """Return the folder of a game, relative to its split."""
        return self._entry(split, index).name

    def task_type(self, split: str, index: int) -> str:
        """Return the task type of a game."""
        return self._entry(split, index).task_type

    def source(self, split: str, index: int) -> Path:
        """Return the path of the game file."""
        return self._file(split, index, GAME_FILE)

    def sentences(self, split: str, index: int) -> list[str]:
        """Return the descriptions in the game's `traj_data.json`, blanks made single.

        Raises:
            GameFileError: The file is missing, damaged or has no descriptions.
        """
        file = self._file(split, index, TRAJECTORY_FILE)
        try:
            notes = json.loads(file.read_bytes())["turk_annotations"]["anns"]
            sentences = [" ".join(str(note["task_desc"]).split()).removesuffix(".") for note in notes]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise GameFileError(f"{file}: no task descriptions ({error!r}). Use goal_text='template'.") from error
        if not sentences:
            raise GameFileError(f"{file}: the list of task descriptions is empty. Use goal_text='template'.")
        return sentences

    def describe(self, split: str) -> dict[str, Any]:
        """Return the digest over all games."""
        return {"games": load_split(self._folder.splits[split], split, self._folder.official).digest}


class _FolderSplits(Mapping[str, "int | str"]):
    """Sizes of the splits of a folder, found when asked for: the training split is large."""

    def __init__(self, folder: GameFolder) -> None:
        self._folder = folder
        own = tuple(folder.splits)
        first, last = own[0], own[-1]
        self._aliases = {
            name: target for name, target in (("train", first), ("test", last)) if name not in folder.splits
        }

    def __getitem__(self, split: str) -> int | str:
        if split in self._aliases:
            return self._aliases[split]
        return len(load_split(self._folder.splits[split], split, self._folder.official).games)

    def __iter__(self) -> Iterator[str]:
        yield from self._folder.splits
        yield from self._aliases

    def __len__(self) -> int:
        return len(self._folder.splits) + len(self._aliases)

    def __contains__(self, split: object) -> bool:
        return split in self._folder.splits or split in self._aliases


def choose_sentence(sentences: list[str], task_id: str) -> str:
    """Return one of a task's sentences, always the same one for a task."""
    return sentences[int(random.Random(task_id).random() * len(sentences))]
