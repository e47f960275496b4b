"""From verl's rows to advantages: packing, padding, errors, groups; and equality with the local trainer's table."""

import dataclasses

import numpy as np
import pytest

from agent_envs.errors import GroupMismatchError
from agent_envs.records import Status, Turn
from agent_envs.trainers.advantages import EstimatorConfig, compute_advantages
from agent_envs.trainers.verl.turns import (
    EpisodeFacts,
    Span,
    batch_metrics,
    make_batch,
    pack,
    share_of_errors,
    spread,
    turn_table,
)


def turn(place, *, state, after, reward=0.0, valid=True, last=False, success=False, status=Status.RUNNING):
    return Turn(
        group=-1,
        member=-1,
        turn=place,
        task_id="toy/train/0",
        state_key=state,
        next_state_key=after,
        action="a",
        reward=reward,
        terminated=last and status is Status.RUNNING,
        truncated=last and status is not Status.RUNNING,
        success=success,
        action_is_valid=valid,
        format_ok=True,
        status=Status.COMPLETED if last and status is Status.RUNNING else status,
    )


def episode(states, reward, *, error="", task="toy/train/0", kind=""):
    """One episode over the states: (spans as of one row per turn, facts)."""
    spans = []
    for place, state in enumerate(states):
        last = place == len(states) - 1
        after = states[place + 1] if not last else "end"
        gain = reward if last else 0.0
        spans.append(Span(turn=turn(place, state=state, after=after, reward=gain, last=last), start=0, end=place + 1))
    facts = EpisodeFacts(
        task_id=task,
        kind=kind,
        first_state_key=states[0],
        success=reward > 0,
        outcome=reward,
        num_turns=len(states),
        infra_error=error,
    )
    return spans, facts


def rows_of(sessions):
    """{(uid, session): episode} to verl's keys, tags and records, one row per turn."""
    keys, records = [], []
    for (uid, session), (spans, facts) in sessions.items():
        for index, span in enumerate(spans):
            keys.append(f"{uid}_{session}_{index}")
            records.append(pack([span], facts))
    return keys, [{"status": "success"} for _ in keys], records


SESSIONS = {
    ("u1", 0): episode(["s0", "s1"], 10.0),
    ("u1", 1): episode(["s0", "s0", "s2"], 0.0),
    ("u2", 0): episode(["s0"], 10.0, task="toy/train/1"),
    ("u2", 1): episode(["s0", "s1"], 0.0, task="toy/train/1"),
}
CONFIG = EstimatorConfig(norm="mean_norm", gamma=0.95)


def advantages(keys, tags, records, estimator="gigpo"):
    batch = make_batch(keys, tags, records)
    return batch, compute_advantages(estimator, turn_table(batch), CONFIG).total


def test_worked_example():
    # Section 9 of the estimators' specification: group u1 alone.
    keys, tags, records = rows_of({key: value for key, value in SESSIONS.items() if key[0] == "u1"})
    _, total = advantages(keys, tags, records)
    np.testing.assert_allclose(total, [11.333333, 5, -8.166667, -8.166667, -5], atol=1e-5)


@pytest.mark.parametrize("estimator", ["gigpo", "g2po", "grpo", "rloo", "hgpo"])
def test_padding_rows_that_copy_the_first_row_change_nothing(estimator):
    keys, tags, records = rows_of(SESSIONS)
    _, expected = advantages(keys, tags, records, estimator)
    padded = [*keys, "pad0f_0_0", "pad1f_0_0"], [*tags, *[{"is_padding": True}] * 2], [*records, records[0], records[0]]
    batch, total = advantages(*padded, estimator)
    np.testing.assert_array_equal(total, expected)
    written = spread(batch, total.tolist(), (len(padded[0]), 4))
    assert not written[-2:].any() and written[:-2].any()


def test_row_order_does_not_matter():
    keys, tags, records = rows_of(SESSIONS)
    _, expected = advantages(keys, tags, records)
    order = [5, 2, 0, 7, 1, 6, 3, 4]
    _, total = advantages([keys[i] for i in order], tags, [records[i] for i in order])
    np.testing.assert_array_equal(total, expected[order])


def test_prompts_with_equal_state_keys_never_mix():
    alone = {key: value for key, value in SESSIONS.items() if key[0] == "u1"}
    _, expected = advantages(*rows_of(alone))
    _, total = advantages(*rows_of(SESSIONS))
    np.testing.assert_array_equal(total[: len(expected)], expected)


def test_group_and_member_come_from_the_key():
    keys, tags, records = rows_of({("a-b", 3): episode(["s0"], 1.0)})
    batch = make_batch(keys, tags, records)
    assert (batch.rows[0].group, batch.rows[0].member) == ("a-b", 3)


def test_equal_outcomes_and_single_members_give_zero():
    same = {("u", session): episode(["s0"], 10.0) for session in range(3)}
    _, total = advantages(*rows_of(same))
    assert not total.any()
    _, total = advantages(*rows_of({("u", 0): episode(["s0"], 10.0)}))
    assert not total.any()


def test_episodes_lost_to_errors_leave_the_statistics():
    keys, tags, records = rows_of({**SESSIONS, ("u1", 2): episode(["s0", "s1", "s3"], 0.0, error="error_env: boom")})
    batch, total = advantages(keys, tags, records)
    lost = [place for place, key in enumerate(keys) if key.startswith("u1_2")]
    assert not total[lost].any()
    _, expected = advantages(*rows_of(SESSIONS))
    np.testing.assert_array_equal(np.delete(total, lost), expected)
    metrics = batch_metrics(batch, group_size=3)
    assert (metrics["rollout/infra_errors"], metrics["rollout/episodes"], metrics["rollout/lost"]) == (1, 5, 1)
    assert metrics["rollout/success"] == 0.5
    assert share_of_errors(batch) == (0.2, "error_env: boom")


def test_what_is_left_of_a_broken_group_has_nothing_to_compare_with():
    broken = {("u", 0): episode(["s0"], 10.0), ("u", 1): episode(["s0"], 0.0, error="error_timeout: late")}
    keys, tags, records = rows_of({**SESSIONS, **broken})
    _, total = advantages(keys, tags, records)
    assert not total[-2:].any() and np.isfinite(total).all()


def test_an_episode_without_turns_counts_as_lost_or_too_long():
    empty = [Span(turn=turn(0, state="s", after="s"), start=0, end=0)]
    record = pack([], EpisodeFacts(infra_error="error_service: gone"))
    batch = make_batch(["u_0_0", "u_1_0"], [{}, {}], [record, pack(empty, EpisodeFacts(num_turns=1))])
    table = turn_table(batch)
    assert len(table) == 1 and list(table.weight) == [0.0]
    assert batch_metrics(batch, group_size=2)["rollout/infra_errors"] == 1


def test_different_starts_in_one_group_are_refused():
    mixed = {("u", 0): episode(["s0"], 1.0), ("u", 1): episode(["s9"], 0.0)}
    with pytest.raises(GroupMismatchError, match="prompt u start in 2 different states"):
        make_batch(*rows_of(mixed))


def test_records_of_another_version_are_refused():
    keys, tags, records = rows_of(SESSIONS)
    records[2] = {**records[2], "schema_version": 99}
    with pytest.raises(ValueError, match="schema 99"):
        make_batch(keys, tags, records)


def test_conversations_put_each_turns_advantage_on_its_own_tokens():
    (first, facts), (second, other) = SESSIONS["u1", 0], SESSIONS["u1", 1]
    one = [dataclasses.replace(span, start=3 * i, end=3 * i + 2) for i, span in enumerate(first)]
    two = [dataclasses.replace(span, start=3 * i, end=3 * i + 2) for i, span in enumerate(second)]
    batch = make_batch(["u1_0_0", "u1_1_0"], [{}, {}], [pack(one, facts), pack(two, other)])
    total = compute_advantages("gigpo", turn_table(batch), CONFIG).total
    np.testing.assert_allclose(total, [11.333333, 5, -8.166667, -8.166667, -5], atol=1e-5)
    written = spread(batch, total.tolist(), (2, 9))
    np.testing.assert_allclose(written[0], [11.333333, 11.333333, 0, 5, 5, 0, 0, 0, 0], atol=1e-5)
    np.testing.assert_allclose(written[1][[0, 2, 3, 6, 8]], [-8.166667, 0, -8.166667, -5, 0], atol=1e-5)


def test_similar_observations_share_a_state():
    (spans, facts), (others, other) = episode(["k1"], 10.0), episode(["k1"], 0.0)
    texts = ["the search found page one of three", "the search found page two of three"]
    spans = [dataclasses.replace(spans[0], state_text=texts[0], next_state_text="x")]
    others = [dataclasses.replace(others[0], state_text=texts[1], next_state_text="x")]
    batch = make_batch(["u_0_0", "u_1_0"], [{}, {}], [pack(spans, facts), pack(others, other)])
    assert len(set(turn_table(batch, similarity=0.8).state)) == 1
    assert len(set(turn_table(batch, similarity=0.99).state)) == 2


def test_metrics_per_kind_of_task():
    sessions = {("u", 0): episode(["s"], 1.0, kind="pick"), ("u", 1): episode(["s"], 0.0, kind="pick")}
    metrics = batch_metrics(make_batch(*rows_of(sessions)), group_size=2)
    assert metrics["rollout/success/pick"] == 0.5 and metrics["rollout/return"] == 0.5


def test_same_table_as_the_local_trainer():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from agent_envs.trainers.local import rollout as local

    sessions = {
        **SESSIONS,
        ("u3", 0): episode(["s0", "s1"], 0.0, error="error_env: boom", task="toy/train/2"),
        ("u3", 1): episode(["s0"], 10.0, task="toy/train/2"),
    }
    batch = make_batch(*rows_of(sessions))
    groups = {"u1": 0, "u2": 1, "u3": 2}
    episodes = [
        local.Episode(
            group=groups[uid],
            samples=tuple(
                local.Sample(
                    turn=dataclasses.replace(span.turn, group=groups[uid], member=member),
                    prompt_ids=[1],
                    reply_ids=[1],
                    logprobs=[0.0],
                )
                for span in spans
            ),
            success=facts.success,
            score=facts.score,
            infra_error=facts.infra_error,
            num_turns_dropped=0,
            num_chars_cut=0,
        )
        for (uid, member), (spans, facts) in sessions.items()
    ]
    ours, (_, theirs) = turn_table(batch), local.turn_table(episodes)
    for name in "group traj t state next_state reward valid terminated truncated success weight".split():
        assert list(getattr(ours, name)) == list(getattr(theirs, name)), name
    for estimator in ("gigpo", "g2po", "grpo", "rloo", "reinforce_pp", "hgpo", "graphgpo"):
        np.testing.assert_array_equal(
            compute_advantages(estimator, ours, CONFIG if estimator != "reinforce_pp" else None).total,
            compute_advantages(estimator, theirs, CONFIG if estimator != "reinforce_pp" else None).total,
        )
