"""Fetching of data archives: resumed after a break, checked by size and digest, never half there."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TextIO

from agent_envs.errors import AgentEnvsError

_CHUNK = 1 << 18
_TRIES = 5
_TIMEOUT_S = 30.0
_BAR_WIDTH = 30


class DownloadError(AgentEnvsError):
    """A file cannot be fetched, or is not the one that was asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """A file to fetch."""

    url: str
    size_bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """File name, the last part of the address."""
        return self.url.rpartition("/")[2]


class ProgressBar:
    """One line of progress on a terminal; on anything else only the last state is written.

    Args:
        label: What is being done.
        total: Amount at the end.
        unit: ``"B"`` shows megabytes, any other word a plain count.
        stream: Where to write, standard error by default.
    """

    def __init__(self, label: str, total: int, unit: str = "B", stream: TextIO | None = None) -> None:
        self._label, self._total, self._unit = label, max(total, 1), unit
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._shown_at = 0.0

    def show(self, done: int) -> None:
        """Draw the bar, at most ten times a second."""
        last = done >= self._total
        now = time.monotonic()
        if not last and (not self._live or now - self._shown_at < 0.1):
            return
        self._shown_at = now
        filled = min(done, self._total) * _BAR_WIDTH // self._total
        amount = f"{done / 1e6:.1f} of {self._total / 1e6:.1f} MB" if self._unit == "B" else f"{done:,} {self._unit}"
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        self._stream.write(f"{chr(13) if self._live else ''}{self._label} [{bar}] {amount}{chr(10) if last else ''}")
        self._stream.flush()


def fetch(archive: Archive, folder: Path, *, retry_after_s: float = 2.0) -> Path:
    """Download a file into a folder, unless it is there already.

    A download that breaks off leaves ``<name>.part``; the next try, or the next call, goes on from there.

    Args:
        archive: The file.
        folder: Folder to put it into; made if missing.
        retry_after_s: Pause before another try, in seconds; doubled each time.

    Returns:
        Path of the complete, checked file.

    Raises:
        DownloadError: The server refuses, breaks off five times, or sends another file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, part = folder / archive.name, folder / f"{archive.name}.part"
    if target.is_file() and _is_right(target, archive):
        return target
    for number in range(_TRIES):
        try:
            _continue_download(archive, part)
            break
        except urllib.error.HTTPError as error:
            if error.code == 416:
                part.unlink(missing_ok=True)  # the file there is shorter than what we have of it
            elif error.code < 500:
                raise DownloadError(f"{archive.url} cannot be fetched: HTTP {error.code} {error.reason}.") from error
            reason: Exception = error
        except (OSError, http.client.HTTPException) as error:
            reason = error
        if number == _TRIES - 1:
            raise DownloadError(
                f"{archive.url} cannot be fetched: {reason}. Check the network and run the command again, it goes on "
                f"from {_size(part):,} of {archive.size_bytes:,} bytes."
            ) from reason
        time.sleep(retry_after_s * 2**number)
    if not _is_right(part, archive):
        found = _size(part)
        part.unlink()
        raise DownloadError(
            f"{archive.url} is not the expected file: got {found:,} bytes, expected {archive.size_bytes:,} with "
            f"SHA-256 {archive.sha256}. Run the command again; if it fails again, the file was replaced at its source."
        )
    os.replace(part, target)
    return target


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_right(path: Path, archive: Archive) -> bool:
    if _size(path) != archive.size_bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == archive.sha256


def _continue_download(archive: Archive, part: Path) -> None:
    """Append what is missing of the file, or start over where the server cannot resume."""
    start = _size(part)
    if start >= archive.size_bytes:
        if start == archive.size_bytes:
            return
        part.unlink()
        start = 0
    headers = {"User-Agent": "agent-envs"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(archive.url, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        if start and response.status != 206:
            start = 0
        bar = ProgressBar(archive.name, archive.size_bytes)
        with part.open("ab" if start else "wb") as file:
            while block := response.read(_CHUNK):
                file.write(block)
                start += len(block)
                bar.show(start)
                if start > archive.size_bytes:
                    return  # another file: the check that follows says so
    if start < archive.size_bytes:
        raise OSError(f"the connection ended after {start:,} of {archive.size_bytes:,} bytes")


def unzip(archive: Path, folder: Path) -> int:
    """Unpack a zip file; files that are there with the right size are kept.

    Every file appears with its full content or not at all, so that a broken run can be repeated.

    Returns:
        The number of files in the archive.

    Raises:
        DownloadError: The archive is damaged or names a file outside the folder.
    """
    try:
        with zipfile.ZipFile(archive) as content:
            members = list(_members(content))
            bar = ProgressBar(f"unpack {archive.name}", len(members), "files")
            for number, (member, parts) in enumerate(members, 1):
                target = folder.joinpath(*parts)
                if _size(target) != member.file_size or not target.exists():
                    _extract(content, member, target)
                bar.show(number)
    except zipfile.BadZipFile as error:
        raise DownloadError(f"{archive} is no complete zip file ({error}). Delete it and fetch it again.") from error
    return len(members)


def _members(content: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    for member in content.infolist():
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename:
            raise DownloadError(f"{content.filename} names {member.filename!r}, which lies outside its folder.")
        if not member.is_dir():
            yield member, path.parts


def _extract(content: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with content.open(member) as source, part.open("wb") as file:
            while block := source.read(_CHUNK):
                file.write(block)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
