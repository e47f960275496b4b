"""The official games: where they are, what is in them, whether all are there, and how to get them.

A data folder is read only. The list of its games is kept in memory and in the user's cache folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent_envs.cache import cache_folder
from agent_envs.downloads import Archive, fetch, unzip
from agent_envs.envs.alfworld.generator import SPLIT_COUNTS
from agent_envs.envs.alfworld.generator_tables import TASK_TYPES
from agent_envs.tasks import write_atomically

ENV_VARIABLE = "ALFWORLD_DATA"
GAME_FILE, TRAJECTORY_FILE = "game.tw-pddl", "traj_data.json"
SPLITS = tuple(SPLIT_COUNTS)
# Number of games per type of the official splits; our own splits have the same.
MANIFEST = {split: dict(zip(TASK_TYPES, counts, strict=True)) for split, counts in SPLIT_COUNTS.items()}
_RELEASES = "https://github.com/alfworld/alfworld/releases/download"
ARCHIVES = (
    Archive(
        url=f"{_RELEASES}/0.4.2/json_2.1.3_tw-pddl.zip",
        size_bytes=36_507_267,
        sha256="5df77ea759f2211a4106082839ddbbb790f1ba4e7d097ed732cf453f72aa36cf",
    ),
    Archive(
        url=f"{_RELEASES}/0.2.2/json_2.1.1_json.zip",
        size_bytes=72_018_818,
        sha256="25171f16e20ad7b048c47275c45b0babf3aa1cbab29cec97387922350a9844bc",
    ),
)
GET_IT = "agent-envs data alfworld --download --path DIR (109 MB to fetch, about 1.8 GB unpacked)"

_INDEX_FORMAT = 1
_NUM_NAMED = 20
# Why a folder is no game of the split. The first three are flaws of a copy, the others ALFWorld's own selection.
DAMAGED, NO_KEY, NO_GAME = "damaged game.tw-pddl", "no key 'solvable' in game.tw-pddl", "no game.tw-pddl"
UNSOLVABLE, OTHER = "marked unsolvable", "movable, sliced or other task types"
FLAWS = (DAMAGED, NO_KEY, NO_GAME)


@dataclass(frozen=True, kw_only=True, slots=True)
class GameEntry:
    """One game of a split."""

    name: str
    """Folder relative to the split's, with ``/``."""
    task_type: str
    digest: str
    """Of the problem and the task sentence: equal in all releases that hold the game."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitIndex:
    """What a split's folder holds."""

    folder: Path
    games: tuple[GameEntry, ...]
    """Sorted by name."""
    skipped: Mapping[str, tuple[str, ...]]
    """Reason to folders that are no game of the split, sorted."""
    digest: str
    """Of the names and digests of all games."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GameFolder:
    """A data folder and its splits."""

    path: Path
    splits: Mapping[str, Path]
    """Split name to folder."""
    official: bool
    """All three official splits are there, so that their sizes are known."""


def find_folder(path: str | os.PathLike[str]) -> GameFolder:
    """Return the splits of a data folder.

    The folder may hold ``json_2.1.*`` as the official downloads do, or the split folders ``train``, ``valid_seen`` and
    ``valid_unseen`` themselves, or the task folders of one split, which is then called by the folder's name if that is
    an official one and ``train`` otherwise.

    Raises:
        FileNotFoundError: The folder is missing or holds no games; the text says how to get them.
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}. Get the official games with {GET_IT}.")
    for folder in (root, *sorted(root.glob("json_2.1.*"), reverse=True)):
        splits = {name: folder / name for name in SPLITS if (folder / name).is_dir()}
        if splits:
            return GameFolder(path=folder, splits=splits, official=len(splits) == len(SPLITS))
    if next(root.glob(f"*/*/{GAME_FILE}"), None) is not None:
        name = root.name if root.name in SPLITS else "train"
        return GameFolder(path=root, splits={name: root}, official=False)
    raise FileNotFoundError(
        f"{root} holds no games: expected json_2.1.1/, or {', '.join(SPLITS)}, or task folders with trial folders and "
        f"{GAME_FILE} in them. Get the official games with {GET_IT}."
    )


# ---------------------------------------------------------------------- index


def index_split(folder: Path) -> SplitIndex:
    """Return the games of a split by ALFWorld's selection rule: of the six types, marked solvable, nothing sliced.

    Reading every file takes seconds for the training split; the result is kept in the user's cache folder and used
    again as long as names, sizes and times of the files are the same.
    """
    trials = list(_scan(folder))
    signature = _digest(json.dumps(trials))
    cache = _cache_file(folder)
    if (index := _read_cache(cache, folder, signature)) is not None:
        return index
    games: list[GameEntry] = []
    skipped: dict[str, list[str]] = {}
    for name, size, _ in trials:
        task_type = _task_type(name)
        if task_type is None:
            entry: GameEntry | str = OTHER
        else:
            entry = NO_GAME if size is None else _read_game(folder, name, task_type)
        if isinstance(entry, GameEntry):
            games.append(entry)
        else:
            skipped.setdefault(entry, []).append(name)
    index = _make_index(folder, games, skipped)
    _write_cache(cache, index, signature)
    return index


def _make_index(folder: Path, games: Sequence[GameEntry], skipped: Mapping[str, Sequence[str]]) -> SplitIndex:
    return SplitIndex(
        folder=folder,
        games=tuple(games),
        skipped={reason: tuple(names) for reason, names in skipped.items()},
        digest=_digest(json.dumps([[game.name, game.digest] for game in games])),
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _scan(folder: Path) -> Iterator[tuple[str, int | None, int | None]]:
    """Yield name, size and time of every trial folder in order of names; None for a trial without game file."""
    found = []

    def refuse(error: OSError) -> None:
        raise error

    for root, _, files in os.walk(folder, onerror=refuse):
        if GAME_FILE in files or TRAJECTORY_FILE in files:
            name = Path(root).relative_to(folder).as_posix()
            stat = os.stat(os.path.join(root, GAME_FILE)) if GAME_FILE in files else None
            found.append((name, stat and stat.st_size, stat and stat.st_mtime_ns))
    yield from sorted(found, key=lambda row: row[0])


def _task_type(name: str) -> str | None:
    """Return the task type that a trial's folder names; None for what ALFWorld leaves out."""
    task_type = name.partition("-")[0]
    return task_type if task_type in TASK_TYPES and "movable" not in name and "Sliced" not in name else None


def _read_game(folder: Path, name: str, task_type: str) -> GameEntry | str:
    """Return the entry of a game, or the reason why it is none."""
    try:
        content = json.loads((folder / name / GAME_FILE).read_bytes())
        problem, grammar = str(content["pddl_problem"]), str(content["grammar"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return DAMAGED
    if "solvable" not in content:
        return NO_KEY
    if not content["solvable"]:
        return UNSOLVABLE
    sentence = grammar.partition("Your task is to: ")[2].partition('"')[0]
    return GameEntry(name=name, task_type=task_type, digest=_digest(f"{problem}\0{sentence}"))


def _cache_file(folder: Path) -> Path:
    return cache_folder() / f"alfworld-index-{_digest(str(folder.resolve()))}.json"


def _read_cache(cache: Path, folder: Path, signature: str) -> SplitIndex | None:
    """Return the index in a cache file; None if there is none for these files."""
    try:
        data = json.loads(cache.read_bytes())
        if (data["format"], data["signature"]) != (_INDEX_FORMAT, signature):
            return None
        games = [GameEntry(name=name, task_type=kind, digest=digest) for name, kind, digest in data["games"]]
        return _make_index(folder, games, data["skipped"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write_cache(cache: Path, index: SplitIndex, signature: str) -> None:
    games = [[game.name, game.task_type, game.digest] for game in index.games]
    data = {"format": _INDEX_FORMAT, "signature": signature, "games": games, "skipped": dict(index.skipped)}
    with suppress(OSError):  # a cache only saves time
        write_atomically(cache, json.dumps(data))


# ---------------------------------------------------------------------- check


def difference(split: str, index: SplitIndex) -> str:
    """Return how a split differs from the official one, with the files at fault; empty if it does not.

    Folders that ALFWorld's own rule leaves out are no difference.
    """
    have = Counter(game.task_type for game in index.games)
    expected = MANIFEST[split]
    off = [f"{kind} {have[kind]} instead of {expected[kind]}" for kind in TASK_TYPES if have[kind] != expected[kind]]
    if not off:
        return ""
    total = f"{index.folder} has {len(index.games)} games, the official {split} has {sum(expected.values())}"
    named = _named_flaws(index, (*FLAWS, UNSOLVABLE))
    return f"{total}: {'; '.join(off)}.{named or ' No file is at fault: whole folders are missing or foreign.'}"


def _named_flaws(index: SplitIndex, reasons: tuple[str, ...]) -> str:
    """Return the folders skipped for these reasons, one a line."""
    lines = []
    for reason in reasons:
        names = index.skipped.get(reason, ())
        lines += [f"\n  {reason}: {name}" for name in names[:_NUM_NAMED]]
        if len(names) > _NUM_NAMED:
            lines.append(f"\n  {reason}: {len(names) - _NUM_NAMED} more")
    return "".join(lines)


@lru_cache(64)
def load_split(folder: Path, split: str, official: bool) -> SplitIndex:
    """Return a split's index, checked and kept for this process.

    Args:
        folder: The split's folder.
        split: Its name.
        official: Compare with the official split.

    Raises:
        ValueError: An official split is incomplete, or a folder holds no game that can be played.
    """
    index = index_split(folder)
    if official and (problem := difference(split, index)):
        raise ValueError(
            f"{problem}\nResults would not compare. Fetch the games again ({GET_IT}), or point data_dir at "
            f"{folder} itself to play what is there."
        )
    if not index.games:
        raise ValueError(f"{folder} holds no playable game.{_named_flaws(index, (*FLAWS, UNSOLVABLE))}")
    flaws = _named_flaws(index, (DAMAGED, NO_KEY))
    if flaws:
        warnings.warn(f"Games of {folder} are left out:{flaws}", UserWarning, stacklevel=2)
    return index


# ---------------------------------------------------------------------- command line

EXAMPLES = """examples:
  agent-envs data alfworld --path ~/alfworld              check a copy
  agent-envs data alfworld --download --path ~/alfworld   fetch the official games (109 MB), then check them
  ALFWORLD_DATA=~/alfworld agent-envs play ALFWorld       play them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data alfworld``."""
    parser.add_argument("--path", metavar="DIR", help=f"data folder; ${ENV_VARIABLE}, else ~/.cache/alfworld")
    parser.add_argument("--download", action="store_true", help="fetch the official releases into the folder first")


def run(args: argparse.Namespace) -> int:
    """Fetch and check; exit status 1 if games are missing."""
    path = Path(args.path or os.environ.get(ENV_VARIABLE) or "~/.cache/alfworld").expanduser()
    if args.download:
        for archive in ARCHIVES:
            file = fetch(archive, path)
            unzip(file, path)
            file.unlink()
    return report(find_folder(path))


def report(found: GameFolder) -> int:
    """Print what a data folder holds; return 1 if it differs from the official games."""
    problems = []
    print(f"{found.path}\n{'split':<14}{'games':>7}{'official':>10}")
    for split, folder in found.splits.items():
        index = index_split(folder)
        official = sum(MANIFEST[split].values()) if found.official else "-"
        print(f"{split:<14}{len(index.games):>7}{official:>10}")
        if found.official:
            problem = difference(split, index)
        else:
            flaws = _named_flaws(index, FLAWS)
            problem = f"{folder}:{flaws}" if flaws else ""
        problems += [problem] if problem else []
    print("\n".join(problems) or _ready(found))
    return 1 if problems else 0


def _ready(found: GameFolder) -> str:
    kind = "Complete." if found.official else "No full copy of the official games, but sound."
    return f'{kind} Play with gym.make("agent_envs/ALFWorld-v0", data_dir={str(found.path)!r}).'
