"""The demo: GRPO, GiGPO and G2PO train a tiny model from one and the same start; then G2PO learns household chores.

Run it with ``python -m agent_envs.trainers.local.demo``. It needs no model and no network.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from agent_envs.panels import PanelResult
from agent_envs.tasks import write_atomically
from agent_envs.trainers.local import figures
from agent_envs.trainers.local.evaluation import panel_metrics
from agent_envs.trainers.local.report import Metrics, print_table, read_metrics
from agent_envs.trainers.local.train import table_row, train
from agent_envs.trainers.recipe import load_recipe

ESTIMATORS = {"grpo": "GRPO", "gigpo": "GiGPO", "g2po": "G2PO"}


def run_demo(out: Path, overrides: Sequence[str] = ()) -> dict[str, PanelResult]:
    """Train the recipes, print the tables and write ``curves.png``, ``household.png`` and ``demo.json``.

    Args:
        out: Folder of the demo. A demo that was interrupted there goes on.
        overrides: Overrides of all recipes.

    Returns:
        The final panel results by name: ``grpo``, ``gigpo``, ``g2po``, and ``household``.
    """
    began = time.perf_counter()
    results: dict[str, PanelResult] = {}
    curves: dict[str, list[Metrics]] = {}
    for estimator, name in ESTIMATORS.items():
        recipe = load_recipe(f"ezpoints_tiny_{estimator}", overrides=overrides)
        folder = out / estimator
        results[estimator] = train(recipe, folder, resume=(folder / "checkpoints").is_dir()).final
        curves[name] = read_metrics(folder / "metrics.jsonl")
    start = next(line for line in curves["GRPO"] if "eval/success" in line)
    panel = results["grpo"].panel
    title = f"{panel.env_id}, {len(panel)} fixed {panel.split} tasks"
    rows = [table_row("warm start", start)]
    rows += [table_row(name, panel_metrics(results[key])) for key, name in ESTIMATORS.items()]
    print()
    print_table(title, ["", "success", "95% interval", "return", "turns"], rows)
    figures.draw_curves(curves, out / "curves.png", title=title)
    summary = {"start": start["eval/success"]}
    summary |= {key: result.success_rate for key, result in results.items()}
    results["household"], household = _household(out, overrides)
    summary |= household | {"seconds": time.perf_counter() - began}
    write_atomically(out / "demo.json", json.dumps(summary, indent=1) + "\n")
    print(
        f"\n{summary['seconds']:.0f} s. The curves are in {out / 'curves.png'} and {out / 'household.png'}, each run "
        "beside them in a folder of its own."
    )
    return results


def _household(out: Path, overrides: Sequence[str]) -> tuple[PanelResult, dict[str, float]]:
    """Train the recipe of ALFWorld's small rooms; return its result and the figures of the summary."""
    print("\nNow household chores: ALFWorld's small rooms, where objects have to be found first.")
    folder = out / "household"
    recipe = load_recipe("alfworld_tiny_g2po", overrides=overrides)
    result = train(recipe, folder, resume=(folder / "checkpoints").is_dir()).final
    lines = read_metrics(folder / "metrics.jsonl")
    figures.draw_curves({"G2PO": lines}, out / "household.png", title=f"{recipe.agent_envs.env_id}, small rooms")
    start = next(line["eval/success"] for line in lines if "eval/success" in line)
    return result, {"household_start": start, "household": result.success_rate}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(prog="python -m agent_envs.trainers.local.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of the demo (default: runs/demo)")
    run_demo(parser.parse_args(arguments).out)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
