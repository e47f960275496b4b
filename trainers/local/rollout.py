"""Rollouts: groups of episodes as rows that hold what the estimators and the loss need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from agent_envs.groups import GroupVectorEnv
from agent_envs.records import Status, Turn
from agent_envs.tasks import derive_seed
from agent_envs.trainers.advantages import TurnTable, groups_with_spread, merge_similar_states
from agent_envs.trainers.local.agent import Agent, Decision, row_info
from agent_envs.trainers.local.report import Metrics, Stopwatch
from agent_envs.trainers.recipe import AgentEnvsSection, LocalSection


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One turn with the tokens it was made of."""

    turn: Turn
    prompt_ids: list[int]  # [num_prompt_tokens]
    reply_ids: list[int]  # [num_reply_tokens]
    """As sampled."""
    logprobs: list[float]  # [num_reply_tokens]
    """Of the sampled tokens under the policy that sampled them."""
    seen: str = ""
    """Observation acted on."""
    seen_next: str = ""
    """What it led to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """One member's turns, in order; empty if its reset failed or its first prompt was too long."""

    group: int
    samples: tuple[Sample, ...]
    success: bool
    score: float
    infra_error: str
    num_turns_dropped: int
    num_chars_cut: int

    @property
    def outcome(self) -> float:
        """Sum of the environment's rewards."""
        return sum(sample.turn.reward for sample in self.samples)

    @property
    def usable(self) -> bool:
        """False if infrastructure ended it: its return says nothing about the policy."""
        return not self.infra_error and bool(self.samples)


def make_groups(
    section: AgentEnvsSection, local: LocalSection, num_groups: int, group_size: int, executor: str | None = None
) -> GroupVectorEnv:
    """Return the batch of environments of a recipe; ``executor`` overrides the recipe's."""
    name = executor or local.executor
    choice: dict[str, Any] = {} if name is None else {"executor": name}
    vector = gym.make_vec(
        section.env_id,
        num_envs=num_groups * group_size,
        group_size=group_size,
        **choice,
        **section.env_kwargs,
    )
    assert isinstance(vector, GroupVectorEnv)
    return vector


class Player(Protocol):
    """What plays: an :class:`~agent_envs.trainers.local.agent.Agent`, or something around one."""

    def decide(self, observations: Sequence[Any], infos: Mapping[str, Any], rows: Sequence[int]) -> list[Decision]:
        """Return one decision per entry of ``rows``."""


def play(
    vector: GroupVectorEnv, agent: Player, *, seed: int, split: str, first_group: int, watch: Stopwatch
) -> list[Episode]:
    """Play one episode in every row; ``seed`` decides the tasks."""
    with watch.stage("environment"):
        observations, infos = vector.reset(seed=seed, options={"split": split})
    recorder = _Recorder(vector, first_group, observations, infos)
    rows = np.flatnonzero(infos["active"]).tolist()
    while rows:
        decisions = agent.decide(observations, infos, rows)
        rows = recorder.decided(rows, decisions)
        if not rows:
            break
        with watch.stage("environment"):
            actions = [recorder.decisions[row].action for row in rows]
            observations, rewards, terminations, truncations, infos = vector.step(actions, rows=rows)
            recorder.stepped(rows, observations, rewards, terminations, truncations, infos)
        rows = [row for row in rows if not (terminations[row] or truncations[row])]
    return recorder.episodes()


class _Recorder:
    """Turns of all rows of one batch as they happen."""

    def __init__(
        self, vector: GroupVectorEnv, first_group: int, observations: Sequence[str], infos: Mapping[str, Any]
    ) -> None:
        self._groups = (vector.group_index + first_group).tolist()
        self._group_size = vector.group_size
        self._samples: list[list[Sample]] = [[] for _ in self._groups]
        self._last = [row_info(infos, row) for row in range(len(self._groups))]
        self._seen: list[str] = list(observations)
        self._dropped = [0] * len(self._groups)
        self._cut = [0] * len(self._groups)
        self.decisions: dict[int, Decision] = {}

    def decided(self, rows: Sequence[int], decisions: Sequence[Decision]) -> list[int]:
        """Note the decisions; return the rows that go on: a prompt that did not fit ends its episode."""
        going = []
        for row, decision in zip(rows, decisions, strict=True):
            self.decisions[row] = decision
            self._dropped[row] += decision.num_turns_dropped
            self._cut[row] += decision.num_chars_cut
            if decision.reply is not None:
                going.append(row)
            elif self._samples[row]:
                last = self._samples[row].pop()
                turn = replace(last.turn, truncated=True, status=Status.TRUNCATED_LENGTH)
                self._samples[row].append(replace(last, turn=turn))
        return going

    def stepped(
        self,
        rows: Sequence[int],
        observations: Sequence[str],
        rewards: Any,
        terminations: Any,
        truncations: Any,
        infos: Mapping[str, Any],
    ) -> None:
        """Note what the environments answered."""
        for row in rows:
            before, info = self._last[row], row_info(infos, row)
            decision = self.decisions[row]
            assert decision.reply is not None and decision.parsed is not None
            turn = Turn(
                group=self._groups[row],
                member=row % self._group_size,
                turn=len(self._samples[row]),
                task_id=before["task_id"],
                state_key=before["state_key"],
                next_state_key=info["state_key"],
                action=decision.action,
                reward=float(rewards[row]),
                terminated=bool(terminations[row]),
                truncated=bool(truncations[row]),
                success=bool(info["success"]),
                action_is_valid=bool(info["action_is_valid"]),
                format_ok=decision.parsed.format_ok,
                status=_status(info["infra_error"], terminations[row], truncations[row]),
            )
            sample = Sample(
                turn=turn,
                prompt_ids=decision.prompt_ids,
                reply_ids=decision.reply.ids,
                logprobs=decision.reply.logprobs,
                seen=self._seen[row],
                seen_next=observations[row],
            )
            self._samples[row].append(sample)
            self._last[row], self._seen[row] = info, observations[row]

    def episodes(self) -> list[Episode]:
        """Return one episode per row."""
        return [
            Episode(
                group=group,
                samples=tuple(self._samples[row]),
                success=bool(self._last[row].get("success", False)),
                score=float(self._last[row].get("score", 0.0)),
                infra_error=self._last[row].get("infra_error", ""),
                num_turns_dropped=self._dropped[row],
                num_chars_cut=self._cut[row],
            )
            for row, group in enumerate(self._groups)
        ]


def _status(infra_error: str, terminated: bool, truncated: bool) -> Status:
    if infra_error:
        return Status(infra_error.partition(":")[0])
    if terminated:
        return Status.COMPLETED
    return Status.TRUNCATED_MAX_TURNS if truncated else Status.RUNNING


def sample_groups(
    vector: GroupVectorEnv,
    make_agent: Callable[[int], Agent],
    section: AgentEnvsSection,
    local: LocalSection,
    *,
    iteration: int,
    watch: Stopwatch,
) -> tuple[list[Episode], list[Episode]]:
    """Return all episodes of an iteration, and those of the groups to train on.

    Without dynamic sampling both are one batch. With it (DAPO) groups whose outcomes are all equal are left out and
    further batches are drawn, with the same environments and options, until ``num_groups`` groups are kept or
    ``max_batches`` batches were drawn. Surplus groups are dropped in sampling order.

    Args:
        vector: The environments.
        make_agent: ``make_agent(batch)`` returns the agent for the batch of that number.
        section: The recipe's environment section.
        local: The recipe's hyper-parameters.
        iteration: Number of the iteration; with the seed it decides tasks and draws.
        watch: Takes the time of the stages.
    """
    drawn: list[Episode] = []
    kept: dict[int, list[Episode]] = {}
    for batch in range(local.max_batches if local.dynamic_sampling else 1):
        episodes = play(
            vector,
            make_agent(batch),
            seed=derive_seed(section.seed, "rollout", iteration, batch),
            split=section.split,
            first_group=batch * vector.num_groups,
            watch=watch,
        )
        drawn += episodes
        spread = set(groups_with_spread(turn_table(episodes)[1]))
        for group in dict.fromkeys(episode.group for episode in episodes):
            if not local.dynamic_sampling or group in spread:
                kept[group] = [episode for episode in episodes if episode.group == group]
        if len(kept) >= vector.num_groups:
            break
    chosen = list(kept.values())[: vector.num_groups]
    return drawn, [episode for members in chosen for episode in members]


def turn_table(episodes: Sequence[Episode], *, similarity: float | None = None) -> tuple[list[Sample], TurnTable]:
    """Return the samples of the episodes and their table.

    Turns of episodes lost to errors have weight 0; so has the only episode that such a loss leaves of a group, since
    there is nothing to compare it with.

    Args:
        episodes: Whole groups.
        similarity: Group states by similar observations instead of equal keys.
    """
    pairs = [(episode, sample) for episode in episodes for sample in episode.samples]
    turns = [sample.turn for _, sample in pairs]
    members = Counter(episode.group for episode in episodes)
    usable = Counter(episode.group for episode in episodes if episode.usable)
    alone = {group for group, number in members.items() if number > 1 and usable[group] < 2}
    table = TurnTable(
        group=[turn.group for turn in turns],
        traj=[turn.member for turn in turns],
        t=[turn.turn for turn in turns],
        state=[sample.seen if similarity else sample.turn.state_key for _, sample in pairs],
        next_state=[sample.seen_next if similarity else sample.turn.next_state_key for _, sample in pairs],
        reward=[turn.reward for turn in turns],
        valid=[turn.action_is_valid for turn in turns],
        terminated=[turn.terminated for turn in turns],
        truncated=[turn.truncated for turn in turns],
        success=[episode.success for episode, _ in pairs],
        weight=[float(episode.usable and episode.group not in alone) for episode, _ in pairs],
    )
    return [sample for _, sample in pairs], merge_similar_states(table, similarity) if similarity else table


def rollout_metrics(episodes: Sequence[Episode]) -> Metrics:
    """Return the figures of all episodes of an iteration; episodes lost to errors are counted apart."""
    usable = [episode for episode in episodes if episode.usable]
    samples = [sample for episode in usable for sample in episode.samples]
    tokens = sum(len(sample.logprobs) for sample in samples)

    def mean(values: list[float]) -> float:
        return float(np.mean(values)) if values else 0.0

    return {
        "rollout/success": mean([float(episode.success) for episode in usable]),
        "rollout/score": mean([episode.score for episode in usable]),
        "rollout/return": mean([episode.outcome for episode in usable]),
        "rollout/turns": mean([float(len(episode.samples)) for episode in usable]),
        "rollout/action_valid": mean([float(sample.turn.action_is_valid) for sample in samples]),
        "rollout/format_ok": mean([float(sample.turn.format_ok) for sample in samples]),
        "rollout/prompt_tokens": mean([float(len(sample.prompt_ids)) for sample in samples]),
        "rollout/reply_tokens": mean([float(len(sample.reply_ids)) for sample in samples]),
        "rollout/entropy": -sum(sum(sample.logprobs) for sample in samples) / max(tokens, 1),
        "rollout/unique_prompts": len({tuple(s.prompt_ids) for s in samples}) / max(len(samples), 1),
        "rollout/episodes": len(episodes),
        "rollout/infra_errors": sum(bool(episode.infra_error) for episode in episodes),
        "rollout/too_long": sum(
            not episode.samples or episode.samples[-1].turn.status is Status.TRUNCATED_LENGTH
            for episode in episodes
            if not episode.infra_error
        ),
        "rollout/turns_dropped": sum(episode.num_turns_dropped for episode in episodes),
        "rollout/chars_cut": sum(episode.num_chars_cut for episode in episodes),
    }
