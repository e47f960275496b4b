"""Tasks as (split, index), seeds derived by digest, and evaluation panels."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agent_envs.errors import PanelMismatchError
from agent_envs.keys import canonical_json, digest

if TYPE_CHECKING:
    from agent_envs.core import AgentEnv


def derive_seed(seed: int, *parts: int | str) -> int:
    """Return a 63-bit seed that depends on all arguments.

    Sums such as ``seed + g`` make group 1 of seed 0 equal group 0 of seed 1; a digest does not.
    """
    blob = json.dumps([int(seed), *parts]).encode()
    return int.from_bytes(hashlib.blake2b(blob, digest_size=8).digest(), "big") >> 1


def resolve_split(splits: Mapping[str, int | str], split: str, env_name: str) -> str:
    """Return the split's own name: aliases are followed.

    Raises:
        ValueError: If the split is unknown; the text lists the splits and their aliases.
    """
    if not isinstance(split, str) or split not in splits:
        own = ", ".join(name for name, value in splits.items() if not isinstance(value, str))
        aliases = ", ".join(f"{name} is {value}" for name, value in splits.items() if isinstance(value, str))
        raise ValueError(f"Unknown split {split!r} for {env_name}. Splits: {own}{f' ({aliases})' if aliases else ''}.")
    target = splits[split]
    return target if isinstance(target, str) else split


def write_atomically(path: str | Path, text: str) -> None:
    """Write text to a file so that a reader sees the old or the new content, never a part."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    name = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        # Not a file of `tempfile`, which only its owner may read: results are shared.
        with name.open("x", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, target)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """A fixed set of tasks on which policies are compared: every task counts exactly once.

    A score over a panel cannot depend on the number of environments, the workers or an earlier call.

    Raises:
        ValueError: If it names no task, a task twice or a negative index.
        TypeError: If an index is not an int.
    """

    env_id: str
    env_kwargs: dict[str, Any]
    """Keyword arguments of the environment that change its tasks (sizes, modes)."""
    split: str
    indices: tuple[int, ...]
    fingerprint: str
    """Digest of the split's task data; :meth:`check` refuses another."""

    def __post_init__(self) -> None:
        """Check the indices; they become a tuple of ints."""
        given: Any = self.indices
        if isinstance(given, str):
            raise TypeError(f"indices must be a sequence of ints, got the str {given!r}.")
        for index in given:
            if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
                raise TypeError(f"indices must be ints, got {index!r}.")
            if index < 0:
                raise ValueError(f"indices must be >= 0, got {index}.")
        indices = tuple(int(index) for index in given)
        if not indices:
            raise ValueError("A panel must name at least one task, got no indices.")
        if len(set(indices)) < len(indices):
            twice = next(index for position, index in enumerate(indices) if index in indices[:position])
            raise ValueError(f"Every task of a panel counts once, got index {twice} twice.")
        object.__setattr__(self, "indices", indices)

    @classmethod
    def all(cls, env: AgentEnv, *, env_id: str, split: str, env_kwargs: Mapping[str, Any] | None = None) -> Panel:
        """Return the panel of every task of a split."""
        size = env.num_tasks(split)
        return cls(
            env_id=env_id,
            env_kwargs=dict(env_kwargs or {}),
            split=split,
            indices=tuple(range(size)),
            fingerprint=env.fingerprint(split),
        )

    @classmethod
    def sample(
        cls,
        env: AgentEnv,
        *,
        env_id: str,
        split: str,
        size: int,
        seed: int = 0,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> Panel:
        """Return a panel of ``size`` different tasks drawn with ``seed``, in ascending order.

        Raises:
            ValueError: If the split holds fewer tasks than ``size``.
        """
        total = env.num_tasks(split)
        if not 1 <= size <= total:
            raise ValueError(f"Panel size must be in [1, {total}] for {env_id} split {split!r}, got {size}.")
        rng = np.random.default_rng(derive_seed(seed, "panel", env_id, split))
        indices = sorted(rng.choice(total, size=size, replace=False).tolist())
        return cls(
            env_id=env_id,
            env_kwargs=dict(env_kwargs or {}),
            split=split,
            indices=tuple(int(i) for i in indices),
            fingerprint=env.fingerprint(split),
        )

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.indices)

    def check(self, env: AgentEnv) -> None:
        """Refuse to score on other data than the panel was made for.

        Raises:
            PanelMismatchError: If the fingerprints differ; the text names both.
        """
        have = env.fingerprint(self.split)
        if have != self.fingerprint:
            raise PanelMismatchError(
                f"Panel was made for data {self.fingerprint}, this installation has {have} "
                f"({self.env_id}, split {self.split!r}). Rebuild the panel or install the data it names."
            )

    def batches(self, num_groups: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield arrays of ``num_groups`` task indices, shape [G]; the last one is padded with -1 (idle groups)."""
        if num_groups < 1:
            raise ValueError(f"num_groups must be >= 1, got {num_groups}.")
        for start in range(0, len(self.indices), num_groups):
            batch = np.full(num_groups, -1, np.int64)
            part = self.indices[start : start + num_groups]
            batch[: len(part)] = part
            yield batch

    def save(self, path: str | Path) -> None:
        """Write the panel as JSON."""
        write_atomically(path, json.dumps({"format": 1, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Panel:
        """Read a panel written by :meth:`save`.

        Raises:
            ValueError: If the file is not such a panel.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data.pop("format") != 1:
                raise ValueError("unknown format")
            return cls(**data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{path} is not a panel file ({error}). Build one with Panel.sample(...).save(path)."
            ) from None


def fingerprint_of(source: Any) -> str:
    """Return the 8-byte digest of a split's description, as 16 hexadecimal digits."""
    return digest(canonical_json(source), size=8)


def check_indices(indices: Sequence[int], total: int, where: str) -> None:
    """Raise ValueError for the first index outside [0, total)."""
    for index in indices:
        if not 0 <= index < total:
            raise ValueError(f"task_index must be in [0, {total}) for {where}, got {index}.")
