"""The official product files: how to get them, and whether they are the ones that published results used."""

import argparse
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_envs.downloads import DownloadError, ProgressBar
from agent_envs.envs.webshop.catalogue import FULL_FILES, HUMAN_FILE, SMALL_FILES, Catalogue
from agent_envs.envs.webshop.goals import Goals
from agent_envs.envs.webshop.json_stream import iter_list, iter_object
from agent_envs.envs.webshop.shop import ENV_VARIABLE

NUM_SMALL_PRODUCTS, NUM_SMALL_GOALS = 1_000, 6_910
NUM_FULL_PRODUCTS = 1_181_436
NUM_HUMAN_GOALS = 12_087  # instructions with at least one attribute
# Ids on Google Drive, from setup.sh of princeton-nlp/WebShop.
DRIVE_IDS = {
    "items_shuffle_1000.json": "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib",
    "items_ins_v2_1000.json": "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
    "items_shuffle.json": "1A2whVgOO0euk5O13n2iYDM0bQRkkRduB",
    "items_ins_v2.json": "1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi",
    "items_human_ins.json": "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O",
}
_ADDRESS = "https://drive.usercontent.google.com/download?id={id}&export=download&confirm=t"
_PAGE = "https://drive.google.com/file/d/{id}/view"
_CHUNK = 1 << 18
_TRIES = 5
_TIMEOUT_S = 30.0

EXAMPLES = """examples:
  agent-envs data webshop --path ~/webshop                     check a copy
  agent-envs data webshop --download --path ~/webshop          fetch 1,000 products and the human instructions (10 MB)
  agent-envs data webshop --download --full --path ~/webshop   fetch all 1.18 million products too (several GB)
  WEBSHOP_DATA=~/webshop agent-envs play WebShop               shop among them
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """How many of something the files hold."""

    what: str
    found: int
    official: int
    """How many the official files hold."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data webshop``."""
    parser.add_argument("--path", metavar="DIR", help=f"folder of the files; ${ENV_VARIABLE} if left out")
    parser.add_argument("--download", action="store_true", help="fetch the official files into the folder first")
    parser.add_argument("--full", action="store_true", help="with --download: the full set too")


def run(args: argparse.Namespace) -> int:
    """Fetch and check; exit status 1 if the counts are not those of the official files."""
    path = args.path or os.environ.get(ENV_VARIABLE)
    if not path:
        raise ValueError(f"Which folder? Pass --path DIR or set {ENV_VARIABLE}.")
    if args.full and not args.download:
        raise ValueError("--full goes with --download. A check looks at every file that is there.")
    folder = Path(path).expanduser()
    if args.download:
        for name in (*SMALL_FILES, HUMAN_FILE, *(FULL_FILES if args.full else ())):
            download(name, folder)
    return report(folder)


# ---------------------------------------------------------------------- check


def count_files(folder: Path) -> Iterator[Count]:
    """Read every official file of a folder to its end and count what is in it.

    Raises:
        FileNotFoundError: If the folder has none, or one of a pair only.
        ValueError: If a file is damaged.
    """
    have_small, have_full = ((folder / names[0]).is_file() for names in (SMALL_FILES, FULL_FILES))
    if have_small or not have_full:
        catalogue = Catalogue.from_files(folder)
        yield Count(what="products of the small set", found=len(catalogue), official=NUM_SMALL_PRODUCTS)
        yield Count(what="synthetic goals of the small set", found=len(Goals(catalogue)), official=NUM_SMALL_GOALS)
    if have_full:
        if not (folder / FULL_FILES[1]).is_file():
            raise FileNotFoundError(f"{folder / FULL_FILES[1]} is missing beside {FULL_FILES[0]}. {_get_it(folder)}")
        for name, number in zip(FULL_FILES, _count_full(folder), strict=True):
            yield Count(what=f"products in {name}", found=number, official=NUM_FULL_PRODUCTS)
    if (folder / HUMAN_FILE).is_file():
        yield Count(what="human goals", found=_count_human(folder / HUMAN_FILE), official=NUM_HUMAN_GOALS)


def _count_human(path: Path) -> int:
    count = 0
    for asin, records in iter_object(path):
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise ValueError(f"{path}: the instructions of {asin!r} must be a list of objects. Fetch the file again.")
        count += sum(bool(record.get("instruction_attributes")) for record in records)
    return count


def _count_full(folder: Path) -> Iterator[int]:
    """Count products and instructions one by one: the file of products does not fit into most memories."""
    products, instructions = (folder / name for name in FULL_FILES)
    for path, elements in ((products, iter_list(products)), (instructions, iter_object(instructions))):
        bar, number = ProgressBar(f"read {path.name}", NUM_FULL_PRODUCTS, "products"), 0
        for number, _ in enumerate(elements, 1):
            if number % 10_000 == 0:
                bar.show(number)
        yield number


def report(folder: Path) -> int:
    """Print what a folder holds; return 1 if it is not what the official files hold."""
    counts = list(count_files(folder))
    print(f"{folder}\n{'':<36}{'found':>10}{'official':>11}")
    for count in counts:
        mark = "" if count.found == count.official else "  differs"
        print(f"{count.what:<36}{count.found:>10,}{count.official:>11,}{mark}")
    if any(count.found != count.official for count in counts):
        print(f"These are not the official files: results would not compare. {_get_it(folder)}")
        return 1
    print(f'Complete. Play with gym.make("agent_envs/WebShop-v0", data_dir={str(folder)!r}).')
    return 0


def _get_it(folder: Path) -> str:
    return f"Fetch them with `agent-envs data webshop --download --path {folder}`."


# ---------------------------------------------------------------------- download


def download(name: str, folder: Path, *, retry_after_s: float = 2.0) -> Path:
    """Fetch one official file, unless it is there.

    A download that breaks off leaves ``<name>.part``; the next try, or the next call, goes on from there.

    Args:
        name: A key of ``DRIVE_IDS``.
        folder: Folder to put it into; made if missing.
        retry_after_s: Pause before another try, in seconds; doubled each time.

    Raises:
        DownloadError: If the server refuses, sends a web page instead of the file, or breaks off five times.
    """
    target, part = folder / name, folder / f"{name}.part"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    by_hand = f"Open {_PAGE.format(id=DRIVE_IDS[name])} in a browser and save the file as {target}."
    for number in range(_TRIES):
        try:
            _continue(name, part)
            break
        except _NoFile as error:
            raise DownloadError(f"{name} cannot be fetched: {error}. {by_hand}") from error
        except (OSError, http.client.HTTPException) as error:
            if number == _TRIES - 1:
                raise DownloadError(f"{name} cannot be fetched: {error}. Try again later. {by_hand}") from error
            time.sleep(retry_after_s * 2**number)
    os.replace(part, target)
    return target


class _NoFile(Exception):
    """The server answers, but not with the file; another try would not help."""


def _continue(name: str, part: Path) -> None:
    """Append what is missing of a file, or start over where the server cannot resume."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "agent-envs", **({"Range": f"bytes={start}-"} if start else {})}
    request = urllib.request.Request(_ADDRESS.format(id=DRIVE_IDS[name]), headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing lies behind what is here: complete, or of another file, as the check will say
            return
        if error.code < 500:
            raise _NoFile(f"HTTP {error.code} {error.reason}") from error
        raise
    with response:
        if response.headers.get_content_type() == "text/html":
            raise _NoFile("the server sent a web page, as it does when too many people fetch a file")
        if response.status != 206:
            start = 0
        length = int(response.headers.get("Content-Length") or 0)
        bar, done = ProgressBar(name, start + length), start
        with part.open("ab" if start else "wb") as file:
            while block := response.read(_CHUNK):
                file.write(block)
                done += len(block)
                bar.show(done)
    if length and done < start + length:
        raise OSError(f"the connection ended after {done:,} of {start + length:,} bytes")
