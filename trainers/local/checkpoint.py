"""Checkpoints: folders that appear whole or not at all, and from which a run goes on bit for bit.

A checkpoint holds the model as a folder that ``transformers`` loads, the optimizer's tensors and ``state.json``. No
generator state is in it: every random draw of a run is a function of (seed, iteration, ...), see
:func:`agent_envs.derive_seed`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agent_envs.errors import CheckpointError
from agent_envs.tasks import write_atomically
from agent_envs.trainers.local.policy import Policy, load_policy
from agent_envs.trainers.recipe import Recipe, recipe_from_dict

FORMAT = 1
_OPTIMIZER_FILE = "optimizer.safetensors"
# What may change between a run and its continuation: it does not touch what the finished iterations computed.
_FREE_KEYS = ("iterations", "eval_every", "checkpoint_every", "keep_checkpoints", "tensorboard")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A verified checkpoint on disk."""

    path: Path
    recipe: Recipe
    iteration: int
    """Iterations finished."""
    metrics_bytes: int
    """Length of ``metrics.jsonl`` when it was saved."""

    def load_policy(self) -> Policy:
        """Load model and tokenizer onto the recipe's device."""
        return load_policy(self.path / "model", self.recipe.local)

    def load_optimizer(self, policy: Policy, optimizer: torch.optim.Optimizer) -> None:
        """Fill the optimizer with the saved moments and step counts.

        Raises:
            CheckpointError: If they do not fit the model.
        """
        from safetensors.torch import load_file

        tensors = load_file(self.path / _OPTIMIZER_FILE)
        for name, parameter in policy.model.named_parameters():
            state = {}
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if (tensor := tensors.get(f"{name}.{key}")) is not None:
                    # The step count lives on the CPU, the moments beside their parameter.
                    state[key] = tensor if key == "step" else tensor.to(parameter.device)
            if state:
                optimizer.state[parameter] = state
        if len(tensors) != sum(len(state) for state in optimizer.state.values()):
            raise CheckpointError(f"{self.path / _OPTIMIZER_FILE} belongs to another model. {_ADVICE}")


_ADVICE = "Delete this checkpoint folder and resume from an older one, or start a new run folder."


def save_checkpoint(
    folder: Path,
    *,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    iteration: int,
    metrics_bytes: int,
    keep: int,
) -> Path:
    """Write ``folder/iteration_000010``, then delete all but the newest ``keep`` checkpoints."""

    def fill(path: Path) -> None:
        from safetensors.torch import save_file

        policy.save(path / "model")
        tensors = {
            f"{name}.{key}": value.detach().cpu().contiguous()
            for name, parameter in policy.model.named_parameters()
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        save_file(tensors, path / _OPTIMIZER_FILE)
        files = sorted(item for item in path.rglob("*") if item.is_file())
        state = {
            "format": FORMAT,
            "iteration": iteration,
            "metrics_bytes": metrics_bytes,
            "recipe_name": recipe.name,
            "recipe": recipe.to_dict(),
            "files": {str(item.relative_to(path)): _fingerprint(item) for item in files},
        }
        write_atomically(path / "state.json", json.dumps(state, indent=1) + "\n")

    target = folder / f"iteration_{iteration:06d}"
    if target.exists():
        return target
    write_folder(target, fill)
    for old in _checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def write_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Create a folder that readers see whole or not at all.

    Args:
        target: The folder; if another process creates it first, theirs stays.
        fill: Writes the content into the folder it is given.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        fill(draft)
        draft.chmod(0o755)
        os.rename(draft, target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def find_checkpoint(path: Path) -> Path:
    """Return the newest checkpoint of a run folder, or ``path`` itself if it is one.

    Raises:
        CheckpointError: If there is none.
    """
    if (path / "state.json").is_file() or path.name.startswith("iteration_"):
        return path
    found = _checkpoints(path / "checkpoints")
    if not found:
        raise CheckpointError(f"{path} holds no checkpoint. Start the run without resume, or name another folder.")
    return found[-1]


def open_checkpoint(path: Path, recipe: Recipe | None = None) -> Checkpoint:
    """Read and verify a checkpoint.

    Args:
        path: A checkpoint or a run folder, whose newest checkpoint is taken.
        recipe: The recipe that wants to go on; None takes the checkpoint's own.

    Raises:
        CheckpointError: If a file is missing or damaged (the text names it), or the recipe differs.
    """
    path = find_checkpoint(path)
    state = _read_state(path / "state.json")
    for name, (size, digest) in state["files"].items():
        file = path / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing. {_ADVICE}")
        if [size, digest] != _fingerprint(file):
            raise CheckpointError(f"{file} is damaged: its content is not what was saved. {_ADVICE}")
    saved = recipe_from_dict(state["recipe"], name=state["recipe_name"])
    if recipe is not None:
        _check_same_recipe(path, saved, recipe)
    return Checkpoint(
        path=path,
        recipe=recipe or saved,
        iteration=int(state["iteration"]),
        metrics_bytes=int(state["metrics_bytes"]),
    )


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(item for item in folder.glob("iteration_*") if item.is_dir())


def _read_state(file: Path) -> dict[str, Any]:
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ValueError(f"format {state['format']}, this version reads {FORMAT}")
        missing = {"files", "iteration", "metrics_bytes", "recipe", "recipe_name"} - set(state)
        if missing:
            raise ValueError(f"no {min(missing)}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}). {_ADVICE}") from None
    return dict(state)


def _check_same_recipe(path: Path, saved: Recipe, wanted: Recipe) -> None:
    theirs, ours = saved.to_dict(), wanted.to_dict()
    for section, values in ours.items():
        for key, value in values.items():
            if key not in _FREE_KEYS and theirs[section].get(key) != value:
                raise CheckpointError(
                    f"{path} was made with {section}.{key}={theirs[section].get(key)!r}, the recipe says {value!r}. "
                    f"Resume with the run's own recipe.yaml, or use a new run folder. "
                    f"Only {', '.join(f'local.{free}' for free in _FREE_KEYS)} may change."
                )


def _fingerprint(file: Path) -> list[Any]:
    """Return the size in bytes and the digest of a file."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    return [file.stat().st_size, digest.hexdigest()]
