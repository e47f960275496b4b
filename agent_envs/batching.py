"""Rows to batches: observations of a space, and ``info`` dictionaries with one fixed type per key."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from agent_envs.spaces import FreeText


def stack_observations(space: spaces.Space[Any], items: Sequence[Any]) -> Any:
    """Return the batch of the observations of all rows, as Gymnasium's ``batch_space`` describes it.

    Arrays are stacked into a new one, ``Dict`` and ``Tuple`` spaces are batched entry by entry, everything else (text)
    becomes a tuple.
    """
    if isinstance(space, spaces.Dict):
        return {key: stack_observations(part, [item[key] for item in items]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stack_observations(part, [item[i] for item in items]) for i, part in enumerate(space.spaces))
    if isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return np.stack([np.asarray(item, dtype=space.dtype) for item in items])
    return tuple(items)


def blank_observation(space: spaces.Space[Any]) -> Any:
    """Return the placeholder of a row without an episode: an element of the space, empty or zero where possible."""
    if isinstance(space, FreeText):
        return ""
    if isinstance(space, spaces.Dict):
        return {key: blank_observation(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(blank_observation(part) for part in space.spaces)
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, spaces.Sequence) and not space.stack:
        return ()
    generator = copy.deepcopy(space)
    generator.seed(0)
    return generator.sample()


_DTYPES: dict[str, type] = {"bool": np.bool_, "int": np.int64, "float": np.float64, "object": np.object_}
_ACCEPTED = {"bool": {"bool"}, "int": {"int"}, "float": {"float", "int"}, "object": set(_DTYPES)}
_STEP_INFO_KINDS = {
    "state_key": "object",
    "task_id": "object",
    "task": "object",
    "turn": "int",
    "success": "bool",
    "score": "float",
    "infra_error": "object",
    "action_is_valid": "bool",
    "refusal": "object",
}


def _kind(value_type: type) -> str:
    if issubclass(value_type, (bool, np.bool_)):
        return "bool"
    if issubclass(value_type, (int, np.integer)):
        return "int"
    if issubclass(value_type, (float, np.floating)):
        return "float"
    return "object"


class InfoBatcher:
    """Turns one ``info`` per row into one array ``[B]`` per key, with Gymnasium's mask ``_key``.

    Numbers and flags become typed arrays, everything else object arrays. A key keeps its type from call to call:
    Gymnasium's own ``_add_info`` takes the type of the first row and drops the 0.5 of ``[0, 0.5]`` without a word.

    Args:
        num_envs: B.
        env_name: Class name of the environment, for messages.
    """

    def __init__(self, num_envs: int, env_name: str) -> None:
        self._num_envs, self._env_name = num_envs, env_name
        self._kinds = dict(_STEP_INFO_KINDS)

    def batch(self, rows: Sequence[int], infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the batched info of the given rows; other rows read 0, False or None and have mask False.

        Raises:
            TypeError: If a key changes its type; the text names the key, the row and both types.
        """
        index = np.asarray(rows, dtype=np.intp)
        batched: dict[str, Any] = {}
        for key in dict.fromkeys(key for info in infos for key in info):
            try:
                values = [info[key] for info in infos]
                chosen, chosen_rows = index, rows
            except KeyError:
                having = [i for i, info in enumerate(infos) if key in info]
                values = [infos[i][key] for i in having]
                chosen, chosen_rows = index[having], [rows[i] for i in having]
            batched[key] = self._column(key, chosen, chosen_rows, values)
            mask = np.zeros(self._num_envs, np.bool_)
            mask[chosen] = True
            batched[f"_{key}"] = mask
        return batched

    def _column(
        self, key: str, index: npt.NDArray[np.intp], rows: Sequence[int], values: list[Any]
    ) -> npt.NDArray[Any]:
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _kind(type(values[0]))
        if kind == "object":
            column = np.empty(self._num_envs, np.object_)
            for row, value in zip(rows, values, strict=True):
                column[row] = value  # one by one: a list of lists would be taken for a matrix
            return column
        if not {_kind(value_type) for value_type in set(map(type, values))} <= _ACCEPTED[kind]:
            at = next(i for i, value in enumerate(values) if _kind(type(value)) not in _ACCEPTED[kind])
            raise TypeError(
                f"info[{key!r}] of {self._env_name} is of type {kind}, got {values[at]!r} in row {rows[at]}. "
                "A key keeps one type in every row and call; write floats as floats (0.0, not 0)."
            )
        column = np.zeros(self._num_envs, _DTYPES[kind])
        column[index] = values
        return cast("npt.NDArray[Any]", column)
