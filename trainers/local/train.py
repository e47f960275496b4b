"""A group-relative policy-gradient trainer for language agents, from top to bottom.

One iteration: G tasks are played by N members each (:mod:`.rollout`), every turn becomes a row of a table, the
estimator turns the table into one advantage per row (:mod:`agent_envs.trainers.advantages`), and the tokens of each
reply are pushed by it under a clipped ratio (:mod:`.update`). :func:`train` is the whole loop.

What it leaves out of the papers' systems: several devices, inference engines, learning-rate schedules, critics, images.
For those there is the verl backend, which reads the same ``agent_envs:`` section.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from agent_envs.errors import CheckpointError, unknown_name
from agent_envs.memory.registry import memory_path
from agent_envs.panels import PanelResult
from agent_envs.registration import registered_ids
from agent_envs.tasks import Panel, derive_seed, write_atomically
from agent_envs.trainers.advantages import EstimatorConfig, TurnTable, compute_advantages
from agent_envs.trainers.local import figures
from agent_envs.trainers.local.agent import Agent, make_builder
from agent_envs.trainers.local.checkpoint import find_checkpoint, open_checkpoint, save_checkpoint
from agent_envs.trainers.local.evaluation import evaluate_policy, load_panel, make_panel, panel_metrics
from agent_envs.trainers.local.interrupts import interrupts_held
from agent_envs.trainers.local.policy import Policy, torch_threads
from agent_envs.trainers.local.report import Metrics, MetricsLog, Progress, Stopwatch, print_table
from agent_envs.trainers.local.rollout import make_groups, rollout_metrics, sample_groups, turn_table
from agent_envs.trainers.local.update import make_optimizer, update
from agent_envs.trainers.local.warmstart import initial_policy
from agent_envs.trainers.recipe import AgentEnvsSection, Recipe


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A finished run."""

    run_dir: Path
    checkpoint: Path
    """Of the last iteration."""
    metrics: list[Metrics]
    """Lines of ``metrics.jsonl``."""
    start: PanelResult | None
    """Panel before the first iteration; None in a resumed run, whose metrics have its figures."""
    final: PanelResult
    """Panel after the last iteration."""
    seconds: float
    """Wall time of this call."""


def train(recipe: Recipe, run_dir: str | Path, resume: bool = False) -> TrainResult:
    """Train a recipe.

    The run folder receives ``recipe.yaml``, ``metrics.jsonl``, ``checkpoints/``, ``panel.json``, ``result.json`` and
    the pictures ``curves.png``, ``step_groups.png`` and ``time_budget.png``.

    Args:
        recipe: Of :func:`agent_envs.trainers.recipe.load_recipe`.
        run_dir: The run folder; a new one, unless ``resume``.
        resume: Go on from the newest checkpoint. On a CPU the run is then bit for bit what it would have been.

    Raises:
        CheckpointError: If the folder holds a run and ``resume`` is not asked for, or its checkpoint is damaged or of
            another recipe.
        KeyboardInterrupt: After Ctrl-C, when the last finished iteration has been saved.
    """
    run_dir = Path(run_dir)
    check_recipe(recipe)
    if not resume and (run_dir / "checkpoints").is_dir():
        go_on = f"agent-envs train {run_dir / 'recipe.yaml'} --out {run_dir} --resume"
        raise CheckpointError(f"{run_dir} holds a run already. Go on with: {go_on}. Or name another folder with --out.")
    with torch_threads(recipe.local.num_threads):
        return _Run(recipe, run_dir, resume).finish()


class _Run:
    """The state of one run; :meth:`finish` is the loop."""

    def __init__(self, recipe: Recipe, run_dir: Path, resume: bool) -> None:
        self.recipe, self.run_dir = recipe, run_dir
        section, local = recipe.agent_envs, recipe.local
        self.began = time.perf_counter()
        self.panel = make_panel(section)
        cache = run_dir.parent / "warm_starts"
        saved = open_checkpoint(run_dir, recipe) if resume else None
        self.policy = saved.load_policy() if saved else initial_policy(recipe, cache)
        self.reference = initial_policy(recipe, cache) if local.kl_coef else None
        self.optimizer = make_optimizer(self.policy, local)
        if saved:
            saved.load_optimizer(self.policy, self.optimizer)
        self.iteration = saved.iteration if saved else 0
        run_dir.mkdir(parents=True, exist_ok=True)
        recipe.save(run_dir / "recipe.yaml")
        self.panel.save(run_dir / "panel.json")
        self.log = MetricsLog(
            run_dir / "metrics.jsonl", keep_bytes=saved.metrics_bytes if saved else 0, tensorboard=local.tensorboard
        )
        self.vector = make_groups(section, local, section.num_groups, section.group_size)
        self.start: PanelResult | None = None
        self.updating = False

    def finish(self) -> TrainResult:
        """Run the remaining iterations and write the result."""
        local = self.recipe.local
        try:
            with Progress(self.recipe.name, local.iterations, self.iteration) as progress:
                while self.iteration < local.iterations:
                    progress.iteration(self.iterate())
                    if self.iteration % local.checkpoint_every == 0:
                        self.save()
            checkpoint = self.save()
            final = self.evaluate()
            return self.write_result(checkpoint, final)
        except KeyboardInterrupt:
            # A second Ctrl-C may stop inside an update: then only what is on disk is a finished iteration.
            checkpoint = find_checkpoint(self.run_dir) if self.updating else self.save()
            print(
                f"\nInterrupted. The last finished iteration is in {checkpoint}.\n"
                f"Go on with: agent-envs train {self.run_dir / 'recipe.yaml'} --out {self.run_dir} --resume"
            )
            raise
        finally:
            self.vector.close()
            self.log.close()

    def iterate(self) -> Metrics:
        """Do one iteration: evaluate if due, roll out, estimate advantages, update, log."""
        section, local = self.recipe.agent_envs, self.recipe.local
        watch = Stopwatch()
        metrics: Metrics = {"iteration": self.iteration}
        if self.iteration == 0 or (local.eval_every and self.iteration % local.eval_every == 0):
            with watch.stage("evaluate"):
                result = self.evaluate()
            metrics |= panel_metrics(result)
            self.start = result if self.iteration == 0 else self.start

        drawn, episodes = sample_groups(
            self.vector,
            lambda batch: rollout_agent(self.policy, self.recipe, self.iteration, batch, watch),
            section,
            local,
            iteration=self.iteration,
            watch=watch,
        )
        metrics |= rollout_metrics(drawn)

        with watch.stage("advantage"):
            samples, table = turn_table(episodes, similarity=section.similarity)
            advantages = compute_advantages(section.estimator, table, estimator_config(section))
            sizes = table.step_group_sizes()
        real = [row for row in range(len(samples)) if sizes[row] > 0]  # the others belong to episodes lost to errors
        metrics |= {f"batch/{name}": value for name, value in advantages.stats.items()}
        metrics["batch/groups_drawn"] = len({episode.group for episode in drawn})
        counts = {str(size): int((sizes == size).sum()) for size in sorted(set(sizes[real].tolist()))}
        metrics["step_groups"] = counts

        with interrupts_held():
            self.updating = True
            if real:
                with watch.stage("update"):
                    metrics |= update(
                        self.policy,
                        self.reference,
                        self.optimizer,
                        [samples[row] for row in real],
                        advantages.total[real],
                        local,
                        seed=derive_seed(section.seed, "update", self.iteration),
                    )
            metrics |= watch.metrics()
            self.log.write(metrics)
            self.iteration += 1
            self.updating = False
        return metrics

    def evaluate(self) -> PanelResult:
        """Score the policy on the panel."""
        return evaluate_policy(self.policy, self.recipe.agent_envs, self.recipe.local, self.panel)

    def save(self) -> Path:
        """Write a checkpoint of the finished iterations."""
        return save_checkpoint(
            self.run_dir / "checkpoints",
            policy=self.policy,
            optimizer=self.optimizer,
            recipe=self.recipe,
            iteration=self.iteration,
            metrics_bytes=self.log.num_bytes,
            keep=self.recipe.local.keep_checkpoints,
        )

    def write_result(self, checkpoint: Path, final: PanelResult) -> TrainResult:
        """Write ``result.json`` and the pictures and print the table."""
        self.log.write({"iteration": self.iteration, **panel_metrics(final)})
        lines = self.log.read()
        name, estimator = self.recipe.name, self.recipe.agent_envs.estimator
        seconds = time.perf_counter() - self.began
        result = {"recipe": name, "iterations": self.iteration, "seconds": seconds, "final": final.to_dict()}
        write_atomically(self.run_dir / "result.json", json.dumps(result, indent=1) + "\n")
        figures.draw_curves({estimator: lines}, self.run_dir / "curves.png", title=name)
        figures.draw_step_groups(lines, self.run_dir / "step_groups.png")
        figures.draw_time_budget(lines, self.run_dir / "time_budget.png")
        first = next(line for line in lines if "eval/success" in line)
        print_table(
            f"{name} on {len(final.tasks)} fixed tasks of {final.panel.env_id} {final.panel.split}",
            ["", "success", "95% interval", "return", "turns"],
            [table_row("start", first), table_row(f"after {self.iteration}", panel_metrics(final))],
        )
        print(
            f"Run folder {self.run_dir}: curves.png, step_groups.png, time_budget.png, metrics.jsonl, checkpoints/.\n"
            f"Score it again: agent-envs eval {self.run_dir}"
        )
        return TrainResult(
            run_dir=self.run_dir,
            checkpoint=checkpoint,
            metrics=lines,
            start=self.start,
            final=final,
            seconds=seconds,
        )


def table_row(name: str, line: Metrics) -> list[str]:
    """Return the cells of one evaluation."""
    interval = f"{line['eval/success_low']:.1%} - {line['eval/success_high']:.1%}"
    numbers = [f"{line['eval/return']:.2f}", f"{line['eval/turns']:.1f}"]
    return [name, f"{line['eval/success']:.1%}", interval, *numbers]


def rollout_agent(policy: Policy, recipe: Recipe, iteration: int, batch: int, watch: Stopwatch) -> Agent:
    """Return the agent of one rollout batch; each reply draws by (seed, iteration, batch, row, turn)."""
    seed = derive_seed(recipe.agent_envs.seed, "sample", iteration, batch)
    return Agent(
        policy,
        recipe.agent_envs,
        recipe.local,
        temperature=recipe.local.temperature,
        row_seed=lambda row, task_id, turn: derive_seed(seed, row, turn),
        watch=watch,
    )


def estimator_config(section: AgentEnvsSection) -> EstimatorConfig:
    """Return the estimator's options of a recipe."""
    return EstimatorConfig(
        norm=section.norm,
        penalty=section.penalty_mode,
        penalty_coef=section.penalty,
        gamma=section.gamma,
        w=section.w,
    )


def check_recipe(recipe: Recipe) -> None:
    """Check what would otherwise fail after the first rollouts.

    Raises:
        ValueError: For an unknown id, memory, template or estimator (with the closest known name), or settings that do
            not go together.
    """
    section = recipe.agent_envs
    if ":" not in section.env_id and section.env_id not in registered_ids():
        raise unknown_name("env_id", section.env_id, registered_ids())
    memory_path(section.memory)
    make_builder(section)
    if section.group_size == 1 and section.estimator != "reinforce_pp":
        raise ValueError(
            f"Estimator {section.estimator!r} compares the members of a group, but agent_envs.group_size is 1. "
            "Use group_size >= 2, for example 8."
        )
    # Two one-turn episodes: an estimator that lacks something (a critic's values, say) says so here.
    two = [0, 1]
    keys = ["key", "key"]
    flags = [True, True]
    table = TurnTable(
        group=[0, 0],
        traj=two,
        t=[0, 0],
        state=keys,
        next_state=keys,
        reward=[0.0, 1.0],
        valid=flags,
        terminated=flags,
        truncated=[False, False],
        success=[False, True],
    )
    compute_advantages(section.estimator, table, estimator_config(section))


def evaluate_checkpoint(path: str | Path, panel: Panel | str | Path | None = None) -> PanelResult:
    """Score a checkpoint, or the newest one of a run folder, on its recipe's panel or another."""
    checkpoint = open_checkpoint(Path(path))
    section, local = checkpoint.recipe.agent_envs, checkpoint.recipe.local
    with torch_threads(local.num_threads):
        return evaluate_policy(checkpoint.load_policy(), section, local, load_panel(panel, section))


def evaluate_recipe(
    recipe: Recipe, panel: Panel | str | Path | None = None, *, cache: str | Path = "runs/warm_starts"
) -> PanelResult:
    """Score the policy that a recipe starts from; a cloned one is taken from ``cache`` or put there."""
    check_recipe(recipe)
    section, local = recipe.agent_envs, recipe.local
    with torch_threads(local.num_threads):
        return evaluate_policy(initial_policy(recipe, Path(cache)), section, local, load_panel(panel, section))
