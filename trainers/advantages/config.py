"""Options of the advantage estimators."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

Norm = Literal["mean_norm", "mean_std_norm"]
Weighting = Literal["trajectory", "row"]
Singleton = Literal["zero", "raw"]
Penalty = Literal["reward", "row", "none"]
TerminalValue = Literal["outcome", "ten_or_zero"]
EdgeScope = Literal["group", "batch"]
LevelWeights = Literal["skip", "fixed"]
Compat = Literal["verl-agent", "g2po"]

_CHOICES: dict[str, tuple[object, ...]] = {
    "norm": (None, *get_args(Norm)),
    "weighting": get_args(Weighting),
    "singleton": get_args(Singleton),
    "penalty": get_args(Penalty),
    "ddof": (None, 0, 1),
    "value_offset": (0, 1),
    "terminal_value": get_args(TerminalValue),
    "edge_scope": get_args(EdgeScope),
    "hgpo_weights": get_args(LevelWeights),
    "compat": (None, *get_args(Compat)),
}
# Field, lowest and highest value.
_RANGES: dict[str, tuple[float, float]] = {
    "penalty_coef": (0.0, 1e6),
    "gamma": (0.0, 1.0),
    "w": (0.0, 1e6),
    "eps": (1e-12, 1.0),
    "lam": (0.0, 1.0),
    "node_penalty": (0.0, 1e6),
    "context_length": (0, 1000),
    "alpha": (0.0, 20.0),
    "omega": (1e-6, 1.0),
    "max_reward": (1e-6, 1e6),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimatorConfig:
    """Options of all estimators; each reads the ones it needs. The defaults are the papers' formulas.

    `compat` overrides what it names: it sets `weighting`, `singleton`, `penalty`, `ddof`, `eps` and the quirks of one
    estimator at once, so that a run of the released code can be reproduced.
    """

    norm: Norm | None = None
    """`mean_norm`: x - mean. `mean_std_norm`: (x - mean) / (std + eps). `None`: the estimator's own, which is
    `mean_std_norm` for HGPO, GraphGPO, REINFORCE++ and whitened GAE, and `mean_norm` for the others."""
    weighting: Weighting = "trajectory"
    """Samples of the episode part's mean and std: each trajectory once, or each row once, so that a trajectory of T
    turns counts T times."""
    singleton: Singleton = "zero"
    """Episode part of a group with a single sample: 0, or the raw score."""
    penalty: Penalty = "reward"
    """Where an invalid action is punished. `reward`: `penalty_coef` is subtracted from the reward and so discounted
    back to earlier turns. `row`: from the row's own scores only. `none`: nowhere."""
    penalty_coef: float = 0.1
    """Size of that penalty."""
    gamma: float = 0.95
    """Discount per turn."""
    w: float = 1.0
    """Weight of the step part beside the episode part (GiGPO, G2PO, GraphGPO)."""
    ddof: Literal[0, 1] | None = None
    """The std divides by m - ddof. `None`: 0 for HGPO, 1 for the others."""
    eps: float = 1e-6
    """Added to the std."""
    lam: float = 0.95
    """Lambda of the generalised advantage (GAE, GAGPO)."""
    whiten: bool = False
    """GAE: shift and scale the advantages of the batch to mean 0 and std 1."""
    value_offset: Literal[0, 1] = 1
    """G2PO: the state acted in on the last turn is worth gamma^offset times the outcome."""
    terminal_value: TerminalValue = "outcome"
    """G2PO: value after the last turn. `outcome`: the trajectory's own return. `ten_or_zero`: 10 if the float32 return
    is exactly 10, else 0 (released code)."""
    node_penalty: float = 0.0
    """Subtracted from what is normalised per node on invalid rows (G2PO, GraphGPO)."""
    edge_scope: EdgeScope = "group"
    """G2PO: TD errors are normalised over the task group or the batch."""
    context_length: int = 2
    """HGPO: earlier states in the longest context (K); K + 1 levels. Set it to the memory's history length."""
    alpha: float = 1.0
    """HGPO: level k has weight (k + 1)^alpha."""
    hgpo_weights: LevelWeights = "skip"
    """HGPO: `skip` leaves levels out of both sums where the row's group is a singleton or has no spread; `fixed` counts
    them as 0."""
    base_group: bool = False
    """HGPO: add the episode part as one more level of weight 1."""
    omega: float = 0.1
    """GraphGPO: discount per edge to success. Paper: 0.1 ALFWorld, 0.2 WebShop, 0.8 Sokoban."""
    max_reward: float = 10.0
    """GraphGPO: value of success."""
    normalize_distance: bool = False
    """GraphGPO: measure the distance after a turn relative to the one before it."""
    compat: Compat | None = None
    """Reproduce the code released with the GiGPO (`verl-agent`) or the G2PO paper (`g2po`). `None`: the formulas."""

    def __post_init__(self) -> None:
        """Check every option."""
        for name, allowed in _CHOICES.items():
            value: Any = getattr(self, name)
            if isinstance(value, bool) or value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name} must be a number, got {value!r}.")
            if not (math.isfinite(value) and low <= value <= high):
                raise ValueError(f"{name} must be in [{low:g}, {high:g}], got {value!r}.")
        if not isinstance(self.context_length, int):
            raise TypeError(f"context_length must be an int, got {self.context_length!r}.")
        for name in ("whiten", "base_group", "normalize_distance"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}.")

    def resolve(
        self, estimator: str, *, norm: Norm = "mean_norm", ddof: Literal[0, 1] = 1, compat: tuple[Compat, ...] = ()
    ) -> EstimatorConfig:
        """Fill in the defaults of one estimator and apply `compat`.

        Args:
            estimator: Its name, for the error text.
            norm: Its default `norm`.
            ddof: Its default `ddof`.
            compat: Released codes that contain it.

        Returns:
            Options without `None` in `norm` and `ddof`.

        Raises:
            ValueError: If the released code chosen by `compat` does not contain the estimator.
        """
        changes: dict[str, Any] = {"norm": self.norm or norm, "ddof": ddof if self.ddof is None else self.ddof}
        if self.compat is not None:
            if self.compat not in compat:
                known = f"use {' or '.join(map(repr, compat))}" if compat else "leave it None"
                raise ValueError(f"compat={self.compat!r} is not available for {estimator!r}: {known}.")
            changes |= {"weighting": "row", "singleton": "raw", "penalty": "row", "ddof": ddof, "eps": 1e-6}
        return dataclasses.replace(self, **changes)
