"""Recipes: a YAML file with a backend-neutral ``agent_envs:`` section and a section for the backend that trains.

A recipe says what is trained on (environment, groups, memory, prompt, estimator) once, whichever backend runs it::

    extends: _ezpoints_tiny        # optional: another recipe whose values this one changes
    agent_envs: {env_id: agent_envs/EZPoints-v0, estimator: gigpo}
    local: {iterations: 60, lr: 3.0e-4}

Every value is checked against the two dataclasses below; an unknown key is refused with the closest known one.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from agent_envs.errors import did_you_mean, missing_extra, unknown_name
from agent_envs.tasks import write_atomically

_TOP_KEYS = ("extends", "agent_envs", "local")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class AgentEnvsSection:
    """The ``agent_envs:`` section: what every backend needs to know about environment and algorithm."""

    env_id: str
    """Registered id, such as ``agent_envs/EZPoints-v0``."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment."""
    split: str = "train"
    """Split that training tasks are drawn from."""
    num_groups: int = 8
    """Groups (tasks) per iteration, G."""
    group_size: int = 8
    """Members (rollouts) per group, N."""
    memory: str = "window"
    """Memory by registered name or ``"module:Class"``."""
    memory_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the memory."""
    prompt: str = "papers"
    """Template set by name: ``papers``, ``compact`` or one of your own."""
    context: Literal["step", "concatenated"] = "step"
    """``step``: every turn is its own prompt with the memory's view. ``concatenated``: one growing conversation."""
    estimator: str = "gigpo"
    """Advantage estimator by registered name."""
    norm: Literal["mean_norm", "mean_std_norm"] | None = "mean_norm"
    """Normaliser of the estimator; null takes the estimator's own default."""
    gamma: float = 0.95
    """Discount per turn."""
    w: float = 1.0
    """Weight of the step part beside the episode part."""
    similarity: float | None = None
    """Let turns share a step group if what they saw is at least this similar, in (0, 1), and not only if their state
    keys are equal: for results in free text, such as passages. null groups equal state keys."""
    penalty: float = 0.1
    """Coefficient of the penalty for invalid actions. A turn is punished if ``action_is_valid`` is false, which
    includes every reply without a well-formed action (``format_ok`` false): the environment refuses it."""
    penalty_mode: Literal["reward", "row", "none"] = "reward"
    """``reward``: part of the reward, discounted back to earlier turns. ``row``: on the row's own scores. ``none``."""
    panel: Mapping[str, Any] | str = field(default_factory=lambda: {"split": "test", "size": 64, "seed": 0})
    """Fixed evaluation tasks: ``{split, size, seed}``, ``{split, size: all}``, or the path of a panel file."""
    seed: int = 0
    """Seed of tasks, sampling and initial weights."""

    def __post_init__(self) -> None:
        """Check the ranges that no other part of the package checks."""
        _check_range(self, "agent_envs", num_groups=(1, None), group_size=(1, None), seed=(0, None))
        if self.similarity is not None and not 0.0 < self.similarity < 1.0:
            raise ValueError(f"agent_envs.similarity must be in (0, 1) or null, got {self.similarity!r}.")
        _check_range(self, "agent_envs", gamma=(0.0, 1.0), w=(0.0, None), penalty=(0.0, None))
        if isinstance(self.panel, Mapping):
            known = ("split", "size", "seed")
            for key in self.panel:
                if key not in known:
                    raise ValueError(f"Unknown key agent_envs.panel.{key}.{did_you_mean(key, known)} Known: {known}.")


@dataclass(frozen=True, kw_only=True)
class LocalSection:
    """The ``local:`` section: every hyper-parameter of the trainer in ``agent_envs.trainers.local``."""

    model: str = "tiny"
    """``tiny`` builds a small Llama with its own tokenizer; else a folder or hub name that ``transformers`` loads."""
    hidden_size: int = 64
    """Width of the tiny model."""
    num_layers: int = 2
    """Layers of the tiny model."""
    num_heads: int = 4
    """Attention heads of the tiny model."""
    device: str = "auto"
    """``cpu``, ``cuda``, ``cuda:1`` or ``auto`` (the GPU if there is one)."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the forward pass; weights and optimizer state stay float32."""
    num_threads: int = 1
    """CPU threads of torch; more than 1 slows tiny models down. 0 leaves torch's own choice."""

    iterations: int = 60
    """Iterations: one rollout batch and its updates each."""
    lr: float = 3e-4
    """Learning rate of AdamW."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    beta2: float = 0.95
    """Second-moment decay of AdamW (the first is 0.9)."""
    grad_clip: float = 1.0
    """Largest norm of the gradient."""
    clip_low: float = 0.2
    """Ratio is clipped from below at 1 - clip_low."""
    clip_high: float = 0.2
    """Ratio is clipped from above at 1 + clip_high; DAPO's clip-higher takes 0.28."""
    kl_coef: float = 0.0
    """Coefficient of the KL to the frozen initial policy (``low_var_kl``); 0 keeps no reference model."""
    mini_batch_rows: int = 128
    """Turns per optimizer step."""
    micro_batch_rows: int = 128
    """Turns per forward and backward pass; gradients add up to the mini-batch."""
    epochs: int = 1
    """Passes over a rollout batch."""
    dynamic_sampling: bool = False
    """DAPO: leave out groups whose outcomes are all equal and draw further batches until the batch is full."""
    max_batches: int = 10
    """Batches drawn at most per iteration under dynamic sampling."""

    temperature: float = 1.0
    """Sampling temperature of rollouts; the loss uses the same."""
    max_prompt_tokens: int = 1024
    """Longest prompt; the memory drops its oldest turns to fit."""
    max_response_tokens: int = 512
    """Longest reply."""
    generate_batch_rows: int = 512
    """Rows generated at once."""
    executor: Literal["serial", "threads", "processes"] | None = None
    """Executor of the environments; null takes the environment's registered one."""

    eval_every: int = 0
    """Iterations between evaluations on the panel; 0 evaluates before the first and after the last only."""
    eval_temperature: float = 1.0
    """Sampling temperature of evaluations; 0 is greedy."""
    checkpoint_every: int = 10
    """Iterations between checkpoints; the last iteration is always saved."""
    keep_checkpoints: int = 2
    """Newest checkpoints kept."""
    tensorboard: bool = False
    """Also write TensorBoard files."""

    clone_target: float = 0.0
    """Success rate at which behaviour cloning on oracle walks stops; 0 clones nothing."""
    clone_episodes: int = 300
    """Oracle walks to clone."""
    clone_noise: float = 0.3
    """Share of turns of such a walk that play a random action instead."""
    clone_dagger: bool = False
    """Copy the oracle's answers wherever random actions and the policy's own episodes lead (DAgger, Ross et al. 2011),
    instead of the walks with their random actions. The policy then knows its mistakes, but explores less."""
    clone_lr: float = 1e-3
    """Learning rate of cloning."""
    clone_batch_rows: int = 64
    """Turns per cloning step."""
    clone_check_every: int = 20
    """Cloning steps between measurements of the success rate."""
    clone_max_steps: int = 2000
    """Cloning steps at most; not reaching the target by then is a warning."""

    def __post_init__(self) -> None:
        """Check ranges."""
        positive = "hidden_size num_layers num_heads iterations mini_batch_rows micro_batch_rows epochs max_batches"
        positive += " max_prompt_tokens max_response_tokens generate_batch_rows checkpoint_every keep_checkpoints"
        positive += " clone_episodes clone_batch_rows clone_check_every clone_max_steps"
        _check_range(self, "local", **dict.fromkeys(positive.split(), (1, None)))
        _check_range(self, "local", **dict.fromkeys(("num_threads", "eval_every"), (0, None)))
        reals = "lr weight_decay kl_coef clip_high eval_temperature"
        _check_range(self, "local", **dict.fromkeys(reals.split(), (0.0, None)))
        _check_range(self, "local", **dict.fromkeys(("temperature", "grad_clip", "clone_lr"), (1e-9, None)))
        _check_range(self, "local", **dict.fromkeys(("clip_low", "beta2", "clone_target", "clone_noise"), (0.0, 1.0)))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A checked recipe."""

    name: str
    """Bundled name or file stem."""
    agent_envs: AgentEnvsSection
    local: LocalSection = field(default_factory=LocalSection)

    def to_dict(self) -> dict[str, Any]:
        """Return both sections as plain YAML and JSON values."""
        return {key: _plain(dataclasses.asdict(getattr(self, key))) for key in ("agent_envs", "local")}

    def to_yaml(self) -> str:
        """Return the recipe as a YAML text with every default spelled out."""
        text: str = _yaml().safe_dump(self.to_dict(), sort_keys=False)
        return f"# {self.name}, every value spelled out\n{text}"

    def save(self, path: str | Path) -> None:
        """Write the recipe with every default spelled out, atomically."""
        write_atomically(path, self.to_yaml())


def recipe_names() -> list[str]:
    """Return the names of the bundled recipes (files starting with ``_`` are bases that others extend)."""
    files = (item.name for item in _bundled().iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml") and name[0] != "_")


def bundled_files() -> list[str]:
    """Return every bundled recipe file as a path below the recipes' folder, those of the verl backend among them."""
    folders = {"": _bundled(), "verl/": _bundled() / "verl"}
    return [f"{prefix}{item.name}" for prefix, folder in folders.items() for item in folder.iterdir()]


def load_recipe(path_or_name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Load and check a recipe.

    Args:
        path_or_name: Name of a bundled recipe or path of a YAML file.
        overrides: ``section.key=value`` texts, such as ``local.lr=1e-4`` or ``agent_envs.env_kwargs.max_turns=10``.

    Raises:
        ValueError: For an unknown name or key (with the closest known one) or a value out of range.
        TypeError: For a value of the wrong type.
    """
    name, text, folder = _read(str(path_or_name), None)
    data = _resolve(name, text, folder, seen=(name,))
    for override in overrides:
        _override(data, override)
    return recipe_from_dict(data, name=name)


def recipe_from_dict(data: Mapping[str, Any], *, name: str) -> Recipe:
    """Build a recipe from the mapping that :meth:`Recipe.to_dict` returns, or one with fewer keys."""
    for key in data:
        if key not in _TOP_KEYS:
            raise ValueError(f"Unknown section {key!r} in recipe {name}.{did_you_mean(key, _TOP_KEYS)}")
    return Recipe(
        name=name,
        agent_envs=build_section(AgentEnvsSection, data.get("agent_envs"), "agent_envs"),
        local=build_section(LocalSection, data.get("local") or {}, "local"),
    )


def build_section(section: type[_T], values: Any, where: str) -> _T:
    """Build a section's dataclass from a mapping, checking names and types.

    Args:
        section: :class:`AgentEnvsSection`, or the dataclass of a backend.
        values: The mapping of the YAML file.
        where: Name of the section, for error texts.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"Section '{where}:' must be a mapping of keys to values, got {values!r}.")
    fields = {item.name: item for item in dataclasses.fields(section)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(section)
    for key in values:
        if key not in fields:
            raise ValueError(f"Unknown key {where}.{key}.{did_you_mean(key, fields)} Known: {', '.join(fields)}.")
    for key, item in fields.items():
        no_default = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if no_default and key not in values:
            raise ValueError(f"Key {where}.{key} is missing: it has no default.")
    return section(**{key: _coerce(value, hints[key], f"{where}.{key}") for key, value in values.items()})


def _coerce(value: Any, hint: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        if value is None and len(options) < len(typing.get_args(hint)):
            return None
        if len(options) == 1:
            return _coerce(value, options[0], where)
        if not isinstance(value, str | Mapping):
            raise _type_error(where, "a mapping or a text", value)
        return dict(value) if isinstance(value, Mapping) else value
    if origin is Literal:
        if value not in typing.get_args(hint):
            known = ", ".join(map(str, typing.get_args(hint)))
            raise ValueError(f"{where} must be one of {known}, got {value!r}.{did_you_mean(value, known.split(', '))}")
        return value
    if hint is float:
        if isinstance(value, str):  # YAML 1.1 reads 1e-4, without a dot, as text
            try:
                value = float(value)
            except ValueError:
                raise _type_error(where, "a number", value) from None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise _type_error(where, "a finite number", value)
        return float(value)
    expected = Mapping if origin is Mapping or hint is Mapping else hint
    if not isinstance(value, expected) or (hint is int and isinstance(value, bool)):
        name = {"int": "an int", "bool": "true or false", "str": "a text"}
        raise _type_error(where, name.get(expected.__name__, "a mapping"), value)
    return dict(value) if expected is Mapping else value


def _type_error(where: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"{where} must be {wanted}, got {value!r}.")


def _check_range(section: Any, where: str, **ranges: tuple[float, float | None]) -> None:
    for key, (low, high) in ranges.items():
        value = getattr(section, key)
        if value < low or (high is not None and value > high):
            wanted = f">= {low:g}" if high is None else f"in [{low:g}, {high:g}]"
            raise ValueError(f"{where}.{key} must be {wanted}, got {value!r}.")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _bundled() -> Any:
    return importlib.resources.files("agent_envs.trainers") / "recipes"


def _read(path_or_name: str, folder: Path | None) -> tuple[str, str, Path | None]:
    """Return the name, the text and the folder (None for a bundled recipe) of a recipe."""
    path = Path(path_or_name) if folder is None else folder / path_or_name
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ValueError(f"Recipe file {path} does not exist. Bundled recipes: {', '.join(recipe_names())}.")
        return path.stem, path.read_text(encoding="utf-8"), path.parent
    bundled = _bundled() / f"{path_or_name}.yaml"
    if "/" in path_or_name or not bundled.is_file():
        raise unknown_name("recipe", path_or_name, recipe_names())
    return path_or_name, bundled.read_text(encoding="utf-8"), None


def _resolve(name: str, text: str, folder: Path | None, seen: tuple[str, ...]) -> dict[str, Any]:
    """Parse a recipe and lay it over the one it extends."""
    yaml = _yaml()
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"Recipe {name} is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"Recipe {name} must be a mapping with a section 'agent_envs:', got {data!r}.")
    base = data.pop("extends", None)
    if base is None:
        return data
    base_name, base_text, base_folder = _read(str(base), folder)
    if base_name in seen:
        raise ValueError(f"Recipes extend each other in a circle: {' -> '.join((*seen, base_name))}.")
    return _merge(_resolve(base_name, base_text, base_folder, (*seen, base_name)), data)


def _merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    if top.get("env_id", base.get("env_id")) != base.get("env_id"):
        merged.pop("env_kwargs", None)  # another environment has other arguments
    for key, value in top.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _override(data: dict[str, Any], override: str) -> None:
    path, sign, text = override.partition("=")
    keys = path.strip().split(".")
    if not sign or len(keys) < 2 or not all(keys):
        raise ValueError(f"Override {override!r} must read section.key=value, for example local.lr=1e-4.")
    yaml = _yaml()
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"Value of override {override!r} is not valid YAML: {error}") from None
    node = data
    for key in keys[:-1]:
        inner = node.get(key)
        node[key] = dict(inner) if isinstance(inner, Mapping) else {}
        node = node[key]
    node[keys[-1]] = value


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise missing_extra("pyyaml", "train") from None
    return yaml
