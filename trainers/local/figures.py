"""The pictures of a run, drawn from its metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.errors import missing_extra
from agent_envs.trainers.local.report import STAGES, Metrics

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Colours that people with colour blindness tell apart."""
_SIZE_BINS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, None))
_SMOOTHED = 5


def draw_curves(runs: Mapping[str, Sequence[Metrics]], path: Path, *, title: str) -> None:
    """Draw the success rate of one or several runs over the iterations.

    The thin line is the success of each iteration's own rollouts, the thick one its mean over five iterations, the
    points are evaluations on the fixed panel with their 95% interval.
    """
    figure = _figure(8, 4.5)
    axes = figure.add_subplot()
    plot_curves(axes, runs)
    axes.set_title(title)
    _save(figure, path)


def plot_curves(axes: Any, runs: Mapping[str, Sequence[Metrics]]) -> None:
    """Draw the curves of :func:`draw_curves` into given axes."""
    for place, ((name, lines), colour) in enumerate(zip(runs.items(), COLOURS, strict=False)):
        rollouts = [(line["iteration"], line["rollout/success"]) for line in lines if "rollout/success" in line]
        if rollouts:
            x, y = map(np.array, zip(*rollouts, strict=True))
            axes.plot(x, y, color=colour, alpha=0.25, linewidth=1)
            width = min(_SMOOTHED, len(y))
            smooth = np.convolve(y, np.ones(width) / width, mode="valid")
            axes.plot(x[width - 1 :], smooth, color=colour, linewidth=2, label=name)
        points = [line for line in lines if "eval/success" in line]
        if points:
            y = np.array([line["eval/success"] for line in points])
            low, high = (np.array([line[f"eval/success_{end}"] for line in points]) for end in ("low", "high"))
            beside = 0.4 * (place - (len(runs) - 1) / 2)  # intervals of several runs would cover each other
            x = np.array([line["iteration"] for line in points]) + beside
            bars = [np.maximum(y - low, 0), np.maximum(high - y, 0)]
            axes.errorbar(x, y, yerr=bars, color=colour, fmt="o", markersize=4, capsize=3, linewidth=1)
    axes.set_xlabel("iteration")
    axes.set_ylabel("success rate")
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")


def draw_step_groups(lines: Sequence[Metrics], path: Path) -> None:
    """Draw how large step groups are early, halfway and late in training (GiGPO, arXiv 2505.10978, Fig. 5).

    A step group is the set of turns of one task group that were taken in the same state; the bars are shares of turns.
    """
    lines = [line for line in lines if "step_groups" in line]
    figure = _figure(8, 4.5)
    axes = figure.add_subplot()
    chosen = sorted({0, len(lines) // 2, len(lines) - 1}) if lines else []
    labels = [str(low) if low == high else f"{low}+" if high is None else f"{low}-{high}" for low, high in _SIZE_BINS]
    for place, index in enumerate(chosen):
        shares = step_group_shares(lines[index]["step_groups"])
        x = np.arange(len(labels)) + 0.27 * (place - (len(chosen) - 1) / 2)
        axes.bar(x, shares, width=0.25, color=COLOURS[place], label=f"iteration {lines[index]['iteration']}")
    axes.set_xticks(np.arange(len(labels)), labels)
    axes.set_xlabel("turns in the step group (same task, same state)")
    axes.set_ylabel("share of turns")
    axes.set_title("Step-group sizes")
    if chosen:
        axes.legend()
    _save(figure, path)


def step_group_shares(counts: Mapping[str, int]) -> list[float]:
    """Return the share of turns in each size bin; ``counts`` maps a group's size to the number of turns in such."""
    total = max(sum(counts.values()), 1)
    shares = []
    for low, high in _SIZE_BINS:
        inside = (count for size, count in counts.items() if low <= int(size) and (high is None or int(size) <= high))
        shares.append(sum(inside) / total)
    return shares


def draw_time_budget(lines: Sequence[Metrics], path: Path) -> None:
    """Draw the mean seconds per iteration and stage (GiGPO, arXiv 2505.10978, Fig. 6)."""
    lines = [line for line in lines if "rollout/success" in line]
    figure = _figure(8, 3.5)
    axes = figure.add_subplot()
    means = [float(np.mean([line[f"time/{stage}"] for line in lines])) if lines else 0.0 for stage in STAGES]
    total = max(sum(means), 1e-9)
    places = np.arange(len(STAGES))
    axes.barh(places, means, color=COLOURS[0])
    for place, mean in zip(places, means, strict=True):
        axes.text(mean, place, f" {mean:.3f} s ({mean / total:.1%})", va="center")
    axes.set_yticks(places, STAGES)
    axes.invert_yaxis()
    axes.set_xlim(0, max([*means, 1e-9]) * 1.3)
    axes.set_xlabel("seconds per iteration")
    axes.set_title("Time budget")
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    """Return an empty figure that is tied to no window system."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "train") from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    draft = path.with_name(f".{path.name}")
    figure.savefig(draft, dpi=120, format="png")
    os.replace(draft, path)
