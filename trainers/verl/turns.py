"""What crosses from the agent loop to the advantages: turns with their token spans, packed in verl's extra fields.

No part of verl is imported here: packing, the table of turns, and the metrics are plain functions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.errors import GroupMismatchError
from agent_envs.records import SCHEMA_VERSION, Status, Turn
from agent_envs.trainers.advantages import TurnTable, merge_similar_states

FIELD = "agent_envs"
"""Key of the packed record in ``extra_fields``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """One turn and where its tokens stand in the row's response: ``[start, end)``."""

    turn: Turn
    start: int
    end: int
    state_text: str = ""
    """Observation acted on, kept where states are grouped by similarity."""
    next_state_text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeFacts:
    """What is known of a whole episode; the same on all of its rows."""

    task_id: str = ""
    kind: str = ""
    """The environment's ``task_type``, for metrics per kind of task."""
    first_state_key: str = ""
    success: bool = False
    score: float = 0.0
    outcome: float = 0.0
    """Sum of the environment's rewards."""
    num_turns: int = 0
    infra_error: str = ""
    too_long: bool = False
    """A prompt, or a conversation, exceeded its limit."""
    num_turns_dropped: int = 0
    """Past turns that did not fit into prompts."""
    num_chars_cut: int = 0
    """Characters cut out of observations."""
    num_image_tokens: int = 0
    """Replies that were cut at an image or video token of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of verl's batch."""

    group: str
    """verl's uid of the prompt."""
    member: int
    """verl's session of that prompt."""
    spans: tuple[Span, ...]
    episode: EpisodeFacts


def pack(spans: Sequence[Span], episode: EpisodeFacts) -> dict[str, Any]:
    """Return the record of one row as plain values."""
    turns = []
    for span in spans:
        turn = asdict(span.turn)
        turn["status"] = str(span.turn.status)
        turns.append(
            {
                "turn": turn,
                "start": span.start,
                "end": span.end,
                "state_text": span.state_text,
                "next_state_text": span.next_state_text,
            }
        )
    return {"schema_version": SCHEMA_VERSION, "turns": turns, "episode": asdict(episode)}


def unpack(key: str, record: Mapping[str, Any], groups: dict[str, int]) -> Row:
    """Return a row from its record and its key ``{uid}_{session}_{index}``.

    Group and member come from the key alone: padding rows carry a copy of another row's record.

    Args:
        key: Key of the row in TransferQueue.
        record: What :func:`pack` made.
        groups: Number of each uid; new ones are added.

    Raises:
        ValueError: If the record is of another version.
    """
    if record.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"Row {key} has turns of schema {record.get('schema_version')!r}, this version reads {SCHEMA_VERSION}; "
            "all machines need the same agent_envs."
        )
    uid, session, _ = key.rsplit("_", 2)
    group = groups.setdefault(uid, len(groups))
    spans = []
    for item in record["turns"]:
        fields = {**item["turn"], "group": group, "member": int(session), "status": Status(item["turn"]["status"])}
        spans.append(
            Span(
                turn=Turn(**fields),
                start=int(item["start"]),
                end=int(item["end"]),
                state_text=item["state_text"],
                next_state_text=item["next_state_text"],
            )
        )
    return Row(group=uid, member=int(session), spans=tuple(spans), episode=EpisodeFacts(**record["episode"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """All real rows of a step."""

    rows: tuple[Row, ...]
    position: tuple[int, ...]
    """Place of each row in verl's batch, which holds padding rows too."""

    def episodes(self) -> dict[tuple[str, int], EpisodeFacts]:
        """Return the facts of each (uid, session)."""
        return {(row.group, row.member): row.episode for row in self.rows}

    def spans(self) -> list[tuple[int, Span]]:
        """Return (place in verl's batch, span) of every turn."""
        return [(place, span) for place, row in zip(self.position, self.rows, strict=True) for span in row.spans]


def make_batch(keys: Sequence[str], tags: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> Batch:
    """Unpack verl's batch; padding rows are left out.

    Raises:
        GroupMismatchError: If the rollouts of one prompt started in different states.
    """
    groups: dict[str, int] = {}
    real = [place for place, tag in enumerate(tags) if not tag.get("is_padding", False)]
    rows = tuple(unpack(keys[place], records[place], groups) for place in real)
    starts: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        if row.episode.first_state_key:
            starts[row.group].add((row.episode.task_id, row.episode.first_state_key))
    for uid, found in starts.items():
        if len(found) > 1:
            tasks = sorted({task for task, _ in found})
            raise GroupMismatchError(
                f"Rollouts of prompt {uid} start in {len(found)} different states (tasks {', '.join(tasks)}). The same "
                "split, task_index and seed must give the same start: the environment draws from something other than "
                "self.np_random, or its data differ between machines. Please report it with this text."
            )
    return Batch(rows=rows, position=tuple(real))


def turn_table(batch: Batch, *, similarity: float | None = None, **columns: npt.NDArray[np.float64]) -> TurnTable:
    """Return the table that the estimators take, one row per turn in the order of :meth:`Batch.spans`.

    Turns of episodes lost to errors have weight 0; so has the only episode that such a loss leaves of a group, since
    there is nothing to compare it with.

    Args:
        batch: The rows.
        similarity: Group states by similar observations instead of equal keys.
        **columns: Further columns, ``value`` and ``next_value``.
    """
    pairs = [(row, span) for row in batch.rows for span in row.spans]
    turns = [span.turn for _, span in pairs]
    weight_of = _weights(batch)
    table = TurnTable(
        group=[turn.group for turn in turns],
        traj=[turn.member for turn in turns],
        t=[turn.turn for turn in turns],
        state=[span.state_text if similarity else span.turn.state_key for _, span in pairs],
        next_state=[span.next_state_text if similarity else span.turn.next_state_key for _, span in pairs],
        reward=[turn.reward for turn in turns],
        valid=[turn.action_is_valid for turn in turns],
        terminated=[turn.terminated for turn in turns],
        truncated=[turn.truncated for turn in turns],
        success=[row.episode.success for row, _ in pairs],
        weight=[weight_of[row.group, row.member] for row, _ in pairs],
        **columns,
    )
    return merge_similar_states(table, similarity) if similarity else table


def _weights(batch: Batch) -> dict[tuple[str, int], float]:
    episodes = batch.episodes()
    usable = {key for key, facts in episodes.items() if not facts.infra_error and facts.num_turns}
    members = Counter(group for group, _ in episodes)
    left = Counter(group for group, _ in usable)
    return {key: float(key in usable and (members[key[0]] == 1 or left[key[0]] > 1)) for key in episodes}


def batch_metrics(batch: Batch, *, group_size: int) -> dict[str, float]:
    """Return figures over the episodes of a step; those lost to errors are counted apart."""
    episodes = list(batch.episodes().values())
    usable = [facts for facts in episodes if not facts.infra_error]
    errors = {(row.group, row.member) for row in batch.rows if row.episode.infra_error}
    turns = [span.turn for row in batch.rows if (row.group, row.member) not in errors for span in row.spans]

    def mean(values: list[float]) -> float:
        return float(np.mean(values)) if values else 0.0

    groups = {row.group for row in batch.rows}
    metrics = {
        "rollout/success": mean([float(facts.success) for facts in usable]),
        "rollout/score": mean([facts.score for facts in usable]),
        "rollout/return": mean([facts.outcome for facts in usable]),
        "rollout/turns": mean([float(facts.num_turns) for facts in usable]),
        "rollout/action_valid": mean([float(turn.action_is_valid) for turn in turns]),
        "rollout/format_ok": mean([float(turn.format_ok) for turn in turns]),
        "rollout/episodes": float(len(episodes)),
        "rollout/lost": float(len(groups) * group_size - len(episodes)),
        "rollout/infra_errors": float(len(episodes) - len(usable)),
        "rollout/too_long": float(sum(facts.too_long for facts in usable)),
        "rollout/turns_dropped": float(sum(facts.num_turns_dropped for facts in usable)),
        "rollout/chars_cut": float(sum(facts.num_chars_cut for facts in usable)),
        "rollout/image_tokens": float(sum(facts.num_image_tokens for facts in usable)),
    }
    for kind in sorted({facts.kind for facts in usable if facts.kind}):
        metrics[f"rollout/success/{kind}"] = mean([float(facts.success) for facts in usable if facts.kind == kind])
    return metrics


def share_of_errors(batch: Batch) -> tuple[float, str]:
    """Return the share of episodes that infrastructure ended, and the first of their errors."""
    episodes = list(batch.episodes().values())
    errors = [facts.infra_error for facts in episodes if facts.infra_error]
    return len(errors) / max(1, len(episodes)), errors[0] if errors else ""


def spread(batch: Batch, values: Sequence[float], shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Write one value per turn over its tokens: float32 [B, R], 0 elsewhere.

    Args:
        batch: The rows.
        values: One per turn, in the order of :meth:`Batch.spans`.
        shape: (B, R) of verl's batch.
    """
    out = np.zeros(shape, np.float32)
    for (place, span), value in zip(batch.spans(), values, strict=True):
        out[place, span.start : span.end] = value
    return out
