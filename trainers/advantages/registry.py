"""Estimators by name, and the one function trainers call."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from agent_envs.trainers.advantages.config import EstimatorConfig
from agent_envs.trainers.advantages.table import Advantages, TurnTable

Estimator = Callable[[TurnTable, EstimatorConfig], Advantages]

_ESTIMATORS: dict[str, Estimator] = {}


def register_estimator(name: str) -> Callable[[Estimator], Estimator]:
    """Decorator that makes an estimator known under `name`.

    Args:
        name: The name recipes use, such as `"gigpo"`.

    Raises:
        ValueError: If another function has the name already.
    """

    def decorate(function: Estimator) -> Estimator:
        known = _ESTIMATORS.get(name)
        if known is not None and known is not function:
            raise ValueError(
                f"Estimator {name!r} is already registered as {known.__module__}.{known.__qualname__}; "
                "choose another name."
            )
        _ESTIMATORS[name] = function
        return function

    return decorate


def estimator_names() -> tuple[str, ...]:
    """Names of all registered estimators, sorted."""
    return tuple(sorted(_ESTIMATORS))


def get_estimator(name: str) -> Estimator:
    """Look an estimator up.

    Raises:
        ValueError: If no estimator has the name; the text suggests a close one and lists all.
    """
    if name not in _ESTIMATORS:
        close = difflib.get_close_matches(name, _ESTIMATORS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"Unknown estimator {name!r}.{hint} Known: {', '.join(estimator_names())}.")
    return _ESTIMATORS[name]


def compute_advantages(name: str, table: TurnTable, config: EstimatorConfig | None = None) -> Advantages:
    """Compute the advantages of a batch.

    Rows of weight 0 enter no statistics and come back as 0. All arithmetic is float64, and permuting the rows of the
    table permutes the result.

    Args:
        name: A registered estimator, see `estimator_names`.
        table: The batch.
        config: Options; the defaults follow the papers.

    Returns:
        Advantages in the row order of the table.
    """
    return get_estimator(name)(table, EstimatorConfig() if config is None else config)
