"""Recorded visits: JSON lines that replay in the environment.

The first line describes the task; each further line is one action with the state keys around it and what it earned.
Observations are not stored: `replay_visit` gives them back, and proves on the way that the recording is true.
"""

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.tasks import write_atomically

FORMAT = "agent_envs/webshop-visit"
FORMAT_VERSION = 1
ENV_ID = "agent_envs/WebShop-v0"
MAX_BYTES = 1 << 20
"""Size of a recording; none that the site writes comes near it."""
Line = TypeVar("Line", "VisitStart", "VisitTurn")


@dataclass(frozen=True, kw_only=True, slots=True)
class VisitStart:
    """First line of a recording."""

    format: str
    """`FORMAT`."""
    version: int
    """`FORMAT_VERSION`."""
    env_id: str
    data: str
    """Which products, as the environment's argument says it; where their files are differs between machines."""
    max_turns: int
    split: str
    task_index: int
    task_id: str
    task: str
    """The instruction."""
    fingerprint: str
    """Digest of the split's task data."""
    state_key: str
    """Key of the first state."""
    started: str
    """Time in UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisitTurn:
    """Any further line: one action."""

    turn: int
    """0-based."""
    action: str
    state_key: str
    """Key of the state the action was taken in."""
    next_state_key: str
    """Key of the state reached."""
    reward: float
    score: float
    """Score of the purchase, 0.0 without one."""
    terminated: bool
    truncated: bool
    success: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedTurn:
    """A recorded action with the text it answered."""

    observation: str
    """Page on which the action was taken."""
    turn: VisitTurn


class Recorder:
    """Keeps one visit's lines and writes them to a file after each action, never in part."""

    def __init__(self, env: WebShopEnv, info: Mapping[str, Any], *, data: str, folder: Path | None) -> None:
        """Describe a visit that has just started.

        Args:
            env: Its environment.
            info: What ``reset`` returned.
            data: The environment's argument of that name.
            folder: Where to write the file; None keeps the lines in memory only.
        """
        split = str(info["task_id"]).split("/")[1]
        self.start = VisitStart(
            format=FORMAT,
            version=FORMAT_VERSION,
            env_id=ENV_ID,
            data=data,
            max_turns=env.max_turns,
            split=split,
            task_index=env.task_index,
            task_id=info["task_id"],
            task=info["task"],
            fingerprint=env.fingerprint(split),
            state_key=info["state_key"],
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self.turns: list[VisitTurn] = []
        self.path: Path | None = None
        """Where the recording is, None if nothing is written."""
        self.error = ""
        """Why the last write failed, empty if it did not."""
        if folder is not None:
            time = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            self.path = folder / f"webshop-{split}-{env.task_index}-{time}-{secrets.token_hex(4)}.jsonl"

    def add(
        self,
        action: str,
        state_key: str,
        info: Mapping[str, Any],
        *,
        reward: float,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """Record one action; a disk that refuses it is reported in `error`, not raised: the visit goes on."""
        turn = VisitTurn(
            turn=len(self.turns),
            action=action,
            state_key=state_key,
            next_state_key=info["state_key"],
            reward=reward,
            score=info["score"],
            terminated=terminated,
            truncated=truncated,
            success=info["success"],
        )
        self.turns.append(turn)
        if self.path is None:
            return
        try:
            write_atomically(self.path, self.text())
            self.error = ""
        except OSError as error:
            self.error = str(error)
            print(f"webshop: cannot write {self.path}: {error}", file=sys.stderr)

    def text(self) -> str:
        """Return the recording."""
        records = [asdict(self.start), *(asdict(turn) for turn in self.turns)]
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def read_visit(path: str | Path) -> tuple[VisitStart, list[VisitTurn]]:
    """Read a recording.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is too large, damaged, or of another format; the text names the line.
    """
    file = Path(path)
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{file} has {size:,} bytes, a recorded visit has {MAX_BYTES:,} at most.")
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text ({error}), so it is no recorded visit.") from None
    if lines[-1]:
        raise ValueError(f"{file} line {len(lines)} is cut off. Record the visit again.")
    start = _line(VisitStart, lines[0], f"{file} line 1")
    if (start.format, start.version) != (FORMAT, FORMAT_VERSION):
        raise ValueError(f"{file} is {start.format!r} version {start.version}, expected {FORMAT!r} {FORMAT_VERSION}.")
    return start, [_line(VisitTurn, text, f"{file} line {place}") for place, text in enumerate(lines[1:-1], start=2)]


def _line(kind: type[Line], text: str, where: str) -> Line:
    """Read a line into its class; every field must be there with its type."""
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            raise ValueError("not an object")
        for entry in fields(kind):
            value = record[entry.name]
            wanted = (int, float) if entry.type is float else entry.type
            if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):  # type: ignore[arg-type]
                raise ValueError(f"{entry.name} is {value!r:.80}")
        return kind(**{entry.name: record[entry.name] for entry in fields(kind)})
    except RecursionError:
        raise ValueError(f"{where} is damaged: nested too deep. Record the visit again.") from None
    except KeyError as error:
        raise ValueError(f"{where} lacks the field {error}. Record the visit again.") from None
    except ValueError as error:
        raise ValueError(f"{where} is damaged: {error}. Record the visit again.") from None


def replay_visit(path: str | Path, *, data_dir: str | None = None) -> list[ReplayedTurn]:
    """Play a recording in a new environment and check that everything comes out as recorded.

    Args:
        path: The recording.
        data_dir: Folder of the official files, for a visit to them.

    Returns:
        The turns with the observations that the actions answered.

    Raises:
        ValueError: If the recording is damaged, was made with other tasks, or comes out differently.
    """
    start, turns = read_visit(path)
    env = WebShopEnv(data=start.data, data_dir=data_dir, max_turns=start.max_turns)
    if start.split not in env.splits() or env.fingerprint(start.split) != start.fingerprint:
        raise ValueError(
            f"{path} was recorded with other tasks than this shop has ({start.fingerprint}). Replay it with the data "
            "and the version it was recorded with."
        )
    observation, info = env.reset(options={"split": start.split, "task_index": start.task_index})
    if (info["task_id"], info["state_key"]) != (start.task_id, start.state_key):
        raise ValueError(f"{path} starts in another state than task {info['task_id']} does. Record the visit again.")
    replayed = []
    for turn in turns:
        before = info["state_key"]
        replayed.append(ReplayedTurn(observation=str(observation), turn=turn))
        observation, reward, terminated, truncated, info = env.step(turn.action)
        found = VisitTurn(
            turn=len(replayed) - 1,
            action=turn.action,
            state_key=before,
            next_state_key=info["state_key"],
            reward=reward,
            score=info["score"],
            terminated=terminated,
            truncated=truncated,
            success=info["success"],
        )
        if found != turn:
            wrong = [entry.name for entry in fields(turn) if getattr(found, entry.name) != getattr(turn, entry.name)]
            raise ValueError(f"{path} turn {turn.turn} comes out differently: {', '.join(wrong)}. Record it again.")
    return replayed
