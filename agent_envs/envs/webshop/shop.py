"""Which shop an environment opens, and one copy of it for all environments of a process."""

import functools
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from agent_envs.cache import cache_folder
from agent_envs.envs.webshop.catalogue import FULL_FILES, HUMAN_FILE, SMALL_FILES, Catalogue
from agent_envs.envs.webshop.engine import Engine
from agent_envs.envs.webshop.generator import generated_catalogue
from agent_envs.envs.webshop.goals import GoalKind, Goals
from agent_envs.envs.webshop.nouns import TitleNouns
from agent_envs.errors import unknown_name

DataName = Literal["generated", "small", "full"]
NounChoice = Literal["auto", "spacy", "rule"]
ENV_VARIABLE = "WEBSHOP_DATA"

_LOCK = threading.Lock()  # else threads that start together would each build the shop
_NUM_KEPT = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ShopChoice:
    """What decides a shop."""

    data: DataName
    """The embedded products, or the official set of 1,000 or of all products."""
    data_dir: str | None
    """Folder of the official files; None for the embedded products."""
    goals: GoalKind
    """Goals made from attributes and options, or instructions by people."""
    num_products: int | None
    """Only the first products, None for all."""
    nouns: NounChoice
    """Where the nouns of titles come from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shop:
    """An open shop; nothing in it changes."""

    engine: Engine
    """What sessions run on."""
    goals: Goals
    """The engine's goals."""


def choose_shop(
    *,
    data: str | None = None,
    data_dir: str | None = None,
    goals: str = "synthetic",
    num_products: int | None = None,
    nouns: str = "auto",
) -> ShopChoice:
    """Check the arguments and fill in what depends on the machine.

    Args:
        data: ``"generated"``, ``"small"`` or ``"full"``; None is ``"small"`` where a folder is named by ``data_dir`` or
            the variable ``WEBSHOP_DATA``, else ``"generated"``.
        data_dir: Folder of the official files; None takes ``WEBSHOP_DATA``.
        goals: ``"synthetic"`` or ``"human"``.
        num_products: Number of products, None for all.
        nouns: ``"spacy"``, ``"rule"``, or ``"auto"``: spaCy where installed for the official 1,000 products, else the
            rule.

    Raises:
        ValueError: If a value is unknown or the arguments do not go together.
    """
    for name, value, known in (("goals", goals, GoalKind), ("nouns", nouns, NounChoice)):
        if value not in get_args(known):
            raise unknown_name(name, value, get_args(known))
    if data is not None and data not in get_args(DataName):
        raise unknown_name("data", data, get_args(DataName))
    if num_products is not None and (isinstance(num_products, bool) or not isinstance(num_products, int)):
        raise TypeError(f"num_products must be an int or None, got {num_products!r}.")
    if num_products is not None and num_products < 1:
        raise ValueError(f"num_products must be at least 1, got {num_products}. Leave it out for all products.")
    if data == "generated" and data_dir is not None:
        raise ValueError(f"data='generated' reads no files: leave out data_dir={data_dir!r}, or pass data='small'.")
    folder = None if data == "generated" else data_dir or os.environ.get(ENV_VARIABLE) or None
    if data in ("small", "full") and folder is None:
        raise ValueError(
            f"data={data!r} needs the official files: pass data_dir=, or set {ENV_VARIABLE}. Fetch them with "
            "`agent-envs data webshop --download --path DIR`."
        )
    return ShopChoice(
        data=data or ("generated" if folder is None else "small"),  # type: ignore[arg-type]  # checked above
        data_dir=None if folder is None else str(Path(folder).expanduser().absolute()),
        goals=goals,  # type: ignore[arg-type]
        num_products=num_products,
        nouns=nouns,  # type: ignore[arg-type]
    )


def open_shop(choice: ShopChoice) -> Shop:
    """Return the shop; all environments of a process that choose alike get the same object.

    Raises:
        FileNotFoundError: If an official file is missing.
        ValueError: If a file is damaged, or there is no goal.
    """
    with _LOCK:
        return _open(choice, _signature(choice))


def _signature(choice: ShopChoice) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of the files, so that changed files are read anew."""
    if choice.data_dir is None:
        return ()
    paths = (Path(choice.data_dir) / name for name in (*SMALL_FILES, *FULL_FILES, HUMAN_FILE))
    stats = [(path.name, path.stat()) for path in paths if path.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@functools.lru_cache(maxsize=_NUM_KEPT)
def _open(choice: ShopChoice, signature: tuple[tuple[str, int, int], ...]) -> Shop:
    catalogue = _catalogue(choice)
    goals = Goals(catalogue, choice.goals)
    # To index the full set takes minutes; the others are indexed in half a second, no file is needed.
    index_dir = cache_folder() if choice.data == "full" else None
    return Shop(engine=Engine(catalogue, goals, nouns=_nouns(choice, catalogue), index_dir=index_dir), goals=goals)


def _catalogue(choice: ShopChoice) -> Catalogue:
    if choice.data_dir is not None:
        return Catalogue.from_files(
            choice.data_dir,
            full=choice.data == "full",
            human_goals=choice.goals == "human",
            num_products=choice.num_products,
        )
    whole = generated_catalogue()
    return whole if choice.num_products is None else Catalogue(whole.products[: choice.num_products])


def _nouns(choice: ShopChoice, catalogue: Catalogue) -> TitleNouns:
    """Take the nouns as chosen.

    ``"auto"`` never tags the embedded titles, so that their rewards do not depend on what is installed, nor a million
    titles, which takes most of an hour.
    """
    if choice.nouns == "rule" or (choice.nouns == "auto" and choice.data != "small"):
        return TitleNouns.by_rule()
    source = TitleNouns.by_spacy if choice.nouns == "spacy" else TitleNouns.best
    return source((product.title for product in catalogue), cache_dir=cache_folder())
