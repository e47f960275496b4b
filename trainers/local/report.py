"""What a run leaves behind: ``metrics.jsonl``, TensorBoard files, progress on the terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from agent_envs.errors import CheckpointError, DependencyNotInstalled, missing_extra

Metrics = dict[str, Any]
STAGES = ("environment", "prompt", "generate", "advantage", "update", "evaluate")
"""Stages of an iteration, in the order of the time budget. ``prompt`` is memory, prompt, tokens and parsing."""


class Stopwatch:
    """Wall seconds per stage of one iteration."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def metrics(self) -> Metrics:
        """Return the seconds as ``time/<stage>``."""
        return {f"time/{name}": value for name, value in self.seconds.items()}


class MetricsLog:
    """``metrics.jsonl``: one JSON object per line and iteration.

    Args:
        path: The file.
        keep_bytes: Length to cut the file to before it is continued: what later lines say was not saved. 0 starts anew.
        tensorboard: Also write TensorBoard files beside it.

    Raises:
        CheckpointError: If the file is shorter than ``keep_bytes``.
    """

    def __init__(self, path: Path, *, keep_bytes: int = 0, tensorboard: bool = False) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        size = path.stat().st_size if path.exists() else 0
        if size < keep_bytes:
            raise CheckpointError(
                f"{path} has {size} bytes, the checkpoint knows {keep_bytes}: lines are missing. "
                "Restore the file, or start a new run folder."
            )
        path.touch()
        os.truncate(path, keep_bytes)
        self._writer = _tensorboard_writer(path.parent / "tensorboard") if tensorboard else None

    @property
    def num_bytes(self) -> int:
        """Length of the file."""
        return self.path.stat().st_size

    def write(self, metrics: Mapping[str, Any]) -> None:
        """Append one line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")
        if self._writer is not None:
            for name, value in metrics.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(name, value, metrics["iteration"])

    def read(self) -> list[Metrics]:
        """Return all lines."""
        return read_metrics(self.path)

    def close(self) -> None:
        """Close the TensorBoard files."""
        if self._writer is not None:
            self._writer.close()


def read_metrics(path: Path) -> list[Metrics]:
    """Return the lines of a ``metrics.jsonl``."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _tensorboard_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise DependencyNotInstalled("tensorboard is not installed, run pip install tensorboard") from None
    return SummaryWriter(str(folder))


class Progress:
    """A bar on a terminal, plain lines elsewhere.

    Args:
        title: What is running.
        total: Iterations of the whole run.
        done: Iterations done before.
    """

    def __init__(self, title: str, total: int, done: int = 0) -> None:
        self.title, self.total = title, total
        self._bar: Any = None
        self._task: Any = None
        if sys.stdout.isatty():
            rich = _rich_progress()
            columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn())
            self._bar = rich.Progress(*columns, rich.TimeRemainingColumn(), rich.TextColumn("{task.fields[last]}"))
            self._task = self._bar.add_task(title, total=total, completed=done, last="")

    def __enter__(self) -> Progress:
        """Show the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.stop()

    def iteration(self, metrics: Metrics) -> None:
        """Show one finished iteration."""
        text = (
            f"success {metrics['rollout/success']:5.1%}  return {metrics['rollout/return']:6.2f}  "
            f"turns {metrics['rollout/turns']:4.1f}  valid {metrics['rollout/action_valid']:4.0%}"
        )
        if self._bar is not None:
            self._bar.update(self._task, completed=metrics["iteration"] + 1, last=text)
        else:
            seconds = sum(metrics[f"time/{name}"] for name in STAGES)
            count = f"{metrics['iteration'] + 1:4d}/{self.total}"
            print(f"{self.title} {count}  {text}  {seconds:5.2f} s", flush=True)


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table: with lines on a terminal, in plain columns elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title)
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(len(row[place]) for row in [columns, *rows]) for place in range(len(columns))]
    print(title)
    for row in [columns, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich_progress() -> Any:
    try:
        import rich.progress
    except ImportError:
        raise missing_extra("rich", "train") from None
    return rich.progress
