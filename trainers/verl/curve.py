"""The success curve of a run, drawn from what verl's console logger wrote.

``python -m agent_envs.trainers.verl RECIPE | tee run.log``, then ``python -m agent_envs.trainers.verl.curve run.log
curve.png``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_envs.errors import missing_extra
from agent_envs.panels import wilson_interval

_LINE = re.compile(r"step:\d+ - ")
_FIGURE = re.compile(r"([\w/@.\-]+):(?:np\.\w+\()?(-?\d[\d.e+\-]*|nan|inf)")


def read_console(text: str) -> list[dict[str, float]]:
    """Return the figures of each line that verl's console logger wrote, ``step`` among them."""
    found = ((match, line) for line in text.splitlines() if (match := _LINE.search(line)))
    return [{key: float(value) for key, value in _FIGURE.findall(line[match.start() :])} for match, line in found]


def draw(lines: Sequence[dict[str, float]], path: str | Path, *, title: str, panel_size: int | None = None) -> None:
    """Draw success in training and on the panel over the steps.

    Args:
        lines: Of :func:`read_console`.
        path: The picture to write.
        title: Shown above it.
        panel_size: Number of tasks of the panel, for its 95% intervals; None draws none.

    Raises:
        ValueError: If no line holds a success rate.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "train") from None
    train = [(line["step"], line["rollout/success"]) for line in lines if "rollout/success" in line]
    panel = [
        (line["step"], value)
        for line in lines
        for key, value in line.items()
        if key.startswith("val-core/") and key.endswith("/acc/mean@1")
    ]
    if not train and not panel:
        raise ValueError("No line holds rollout/success or val-core/.../acc/mean@1: is this the console log of a run?")
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(*zip(*train, strict=True), color="0.6", linewidth=1.2, label="training episodes")
    if panel:
        steps, rates = zip(*panel, strict=True)
        axes.plot(steps, rates, "o-", color="C0", label="fixed panel")
        if panel_size:
            low, high = zip(*(wilson_interval(rate, panel_size) for rate in rates), strict=True)
            axes.fill_between(steps, low, high, color="C0", alpha=0.15, label="95% interval")
    axes.set(xlabel="step", ylabel="success rate", ylim=(0, 1), title=title)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) not in (2, 3):
        print("usage: python -m agent_envs.trainers.verl.curve CONSOLE_LOG PICTURE [PANEL_SIZE]", file=sys.stderr)
        return 2
    log, picture = Path(words[0]), Path(words[1])
    size = int(words[2]) if len(words) == 3 else None
    draw(read_console(log.read_text(encoding="utf-8", errors="replace")), picture, title=log.stem, panel_size=size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
