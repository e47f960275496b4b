from __future__ import annotations

from dataclasses import replace
from typing import Any

import corridor_env
import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from corridor_env import ENV_ID  # noqa: E402

from agent_envs import Status  # noqa: E402
from agent_envs.tags import Parsed  # noqa: E402
from agent_envs.trainers.advantages import compute_advantages  # noqa: E402
from agent_envs.trainers.local import agent as agent_module  # noqa: E402
from agent_envs.trainers.local import update as update_module  # noqa: E402
from agent_envs.trainers.local.agent import Agent, Decision  # noqa: E402
from agent_envs.trainers.local.evaluation import evaluate_policy, make_panel  # noqa: E402
from agent_envs.trainers.local.generation import Reply, reply_logprobs  # noqa: E402
from agent_envs.trainers.local.policy import build_tiny_model, build_tokenizer, make_policy  # noqa: E402
from agent_envs.trainers.local.report import Stopwatch  # noqa: E402
from agent_envs.trainers.local.rollout import (  # noqa: E402
    make_groups,
    play,
    rollout_metrics,
    sample_groups,
    turn_table,
)
from agent_envs.trainers.local.update import make_optimizer, update  # noqa: E402
from agent_envs.trainers.recipe import AgentEnvsSection, LocalSection  # noqa: E402

LOCAL = LocalSection(
    hidden_size=16, num_layers=1, num_heads=2, max_prompt_tokens=64, max_response_tokens=4, device="cpu"
)


@pytest.fixture(scope="module", autouse=True)
def corridor():
    corridor_env.register()
    yield
    gym.registry.pop(ENV_ID)


def section(**kwargs: Any) -> AgentEnvsSection:
    values = {"env_id": ENV_ID, "num_groups": 2, "group_size": 3, "prompt": "compact", "memory": "none", **kwargs}
    return AgentEnvsSection(**values)


@pytest.fixture(scope="module")
def policy():
    texts = [f"at {place}, goal {goal}\naction:<action>" for place in range(4) for goal in (2, 3)]
    tokenizer = build_tokenizer([*texts, "left</action>", "right</action>", "boom</action>"])
    return make_policy(build_tiny_model(len(tokenizer), LOCAL, seed=0), tokenizer, LOCAL)


class Scripted:
    """Plays fixed actions per row; notes what it was asked for."""

    def __init__(self, scripts: list[list[str]]) -> None:
        self.scripts, self.asked, self.turns = scripts, [], [0] * len(scripts)

    def decide(self, observations: Any, infos: Any, rows: list[int]) -> list[Decision]:
        self.asked.append(list(rows))
        decisions = []
        for row in rows:
            action = self.scripts[row][self.turns[row]]
            self.turns[row] += 1
            parsed = Parsed(action=action, tag="action", thought="", format_ok=True, reason="ok")
            reply = Reply(ids=[row + 3, self.turns[row]], logprobs=[-0.5, -1.0], finished=True)
            decisions.append(
                Decision(
                    prompt_ids=[1, 2],
                    reply=None if action == "too long" else reply,
                    parsed=parsed,
                    action=action,
                    num_turns_dropped=0,
                    num_chars_cut=0,
                )
            )
        return decisions


def run(scripts: list[list[str]], **kwargs: Any):
    chosen = section(**kwargs)
    vector = make_groups(chosen, LOCAL, chosen.num_groups, chosen.group_size)
    agent = Scripted(scripts)
    episodes = play(vector, agent, seed=5, split="train", first_group=4, watch=Stopwatch())
    vector.close()
    return agent, episodes


RIGHT = ["right"] * 6
LOST = ["left"] * 6


def test_turns_of_a_group():
    agent, episodes = run([RIGHT, LOST, ["dance", *RIGHT]], num_groups=1)
    won, lost, danced = episodes
    goal = len(won.samples)
    assert [sample.turn.turn for sample in won.samples] == list(range(goal))
    assert {sample.turn.group for episode in episodes for sample in episode.samples} == {4}
    assert [episode.samples[0].turn.member for episode in episodes] == [0, 1, 2]
    assert len({episode.samples[0].turn.state_key for episode in episodes}) == 1
    for before, after in zip(won.samples, won.samples[1:], strict=False):
        assert before.turn.next_state_key == after.turn.state_key
    assert won.success and won.samples[-1].turn.status is Status.COMPLETED and won.outcome == 1.0
    assert not lost.success and lost.samples[-1].turn.status is Status.TRUNCATED_MAX_TURNS
    assert all(sample.turn.status is Status.RUNNING for sample in lost.samples[:-1])
    first = danced.samples[0].turn
    assert not first.action_is_valid and first.format_ok and first.next_state_key == first.state_key
    assert [sample.reply_ids for sample in won.samples] == [[3, turn + 1] for turn in range(goal)]


def test_rows_that_have_ended_are_not_asked_again():
    agent, episodes = run([RIGHT, LOST, RIGHT], num_groups=1)
    goal = len(episodes[0].samples)
    assert agent.asked == [[0, 1, 2]] * goal + [[1]] * (6 - goal)


def test_error_rows_get_no_weight_and_leave_the_statistics():
    _, episodes = run([RIGHT, LOST, ["right", "boom"], RIGHT, ["boom"], ["boom"]])
    broken = episodes[2]
    assert broken.infra_error.startswith("error_env: ") and not broken.usable
    assert broken.samples[-1].turn.status is Status.ERROR_ENV
    samples, table = turn_table(episodes)
    weights = {(s.turn.group, s.turn.member): w for s, w in zip(samples, table.weight, strict=True)}
    # Group 5 has one member left: nothing to compare it with.
    assert weights == {(4, 0): 1, (4, 1): 1, (4, 2): 0, (5, 0): 0, (5, 1): 0, (5, 2): 0}
    total = compute_advantages("gigpo", table).total
    assert all(a == 0 for a, s in zip(total, samples, strict=True) if weights[s.turn.group, s.turn.member] == 0)
    _, healthy = turn_table(episodes[:2])
    assert np.allclose(total[: len(healthy)], compute_advantages("gigpo", healthy).total)
    metrics = rollout_metrics(episodes)
    assert metrics["rollout/infra_errors"] == 3 and metrics["rollout/success"] == pytest.approx(2 / 3)


def test_a_prompt_that_does_not_fit_ends_the_episode():
    _, episodes = run([["right", "too long"], RIGHT, ["too long"]], num_groups=1)
    cut, _, empty = episodes
    assert cut.samples[-1].turn.status is Status.TRUNCATED_LENGTH and cut.samples[-1].turn.truncated
    assert empty.samples == () and not empty.usable
    assert rollout_metrics(episodes)["rollout/too_long"] == 2
    turn_table(episodes)


def make_agent(policy, chosen: AgentEnvsSection, local: LocalSection = LOCAL, **kwargs: Any) -> Agent:
    options = {"temperature": 1.0, "row_seed": lambda row, task_id, turn: 1000 * row + turn, **kwargs}
    return Agent(policy, chosen, local, **options)


def test_dynamic_sampling_draws_again_with_the_same_options(policy, monkeypatch):
    chosen = section(num_groups=2, group_size=2)
    local = LocalSection(**{**vars(LOCAL), "dynamic_sampling": True, "max_batches": 5})
    vector = make_groups(chosen, local, 2, 2)
    calls = []
    reset = vector.reset
    monkeypatch.setattr(vector, "reset", lambda **kwargs: calls.append(kwargs) or reset(**kwargs))
    flat = [RIGHT] * 4
    agents = [Scripted(flat), Scripted([RIGHT, LOST, RIGHT, RIGHT]), Scripted([RIGHT, LOST, LOST, RIGHT])]
    drawn, kept = sample_groups(vector, agents.__getitem__, chosen, local, iteration=3, watch=Stopwatch())
    vector.close()
    assert [call["options"] for call in calls] == [{"split": "train"}] * 3
    assert len({call["seed"] for call in calls}) == 3
    assert sorted({episode.group for episode in drawn}) == [0, 1, 2, 3, 4, 5]
    assert [episode.group for episode in kept] == [2, 2, 4, 4]  # group 5 is surplus
    assert rollout_metrics(drawn)["rollout/episodes"] == 12


def test_dynamic_sampling_may_keep_nothing():
    chosen = section(num_groups=1, group_size=2)
    local = LocalSection(**{**vars(LOCAL), "dynamic_sampling": True, "max_batches": 2})
    vector = make_groups(chosen, local, 1, 2)
    agents = [Scripted([RIGHT, RIGHT]), Scripted([LOST, LOST])]
    drawn, kept = sample_groups(vector, agents.__getitem__, chosen, local, iteration=0, watch=Stopwatch())
    vector.close()
    assert len(drawn) == 4 and kept == []
    samples, table = turn_table(kept)
    assert samples == [] and compute_advantages("g2po", table).total.shape == (0,)


def test_tokens_are_trained_as_sampled_even_where_text_would_give_others(policy, monkeypatch):
    spelled = [policy.encode(character)[-1] for character in "right"] + policy.encode("</action>")
    assert policy.encode(policy.decode(spelled)) != spelled
    reply = Reply(ids=spelled, logprobs=[-1.0] * len(spelled), finished=True)
    monkeypatch.setattr(agent_module, "generate", lambda model, prompts, **kwargs: [reply] * len(prompts))
    chosen = section(num_groups=1, group_size=2)
    vector = make_groups(chosen, LOCAL, 1, 2)
    episodes = play(vector, make_agent(policy, chosen), seed=0, split="train", first_group=0, watch=Stopwatch())
    vector.close()
    samples, _ = turn_table(episodes)
    assert all(sample.turn.action == "right" and sample.reply_ids == spelled for sample in samples)
    seen = []

    def spy(model: Any, prompts: Any, replies: Any, **kwargs: Any) -> Any:
        seen.extend(replies)
        return reply_logprobs(model, prompts, replies, **kwargs)

    monkeypatch.setattr(update_module, "reply_logprobs", spy)
    update(policy, None, make_optimizer(policy, LOCAL), samples, np.zeros(len(samples)), LOCAL, seed=0)
    assert seen == [spelled] * len(samples)


def test_rollout_logprobs_are_those_of_the_trained_policy(policy):
    chosen = section(memory="window")
    vector = make_groups(chosen, LOCAL, 2, 3)
    episodes = play(vector, make_agent(policy, chosen), seed=1, split="train", first_group=0, watch=Stopwatch())
    vector.close()
    samples, table = turn_table(episodes)
    metrics = update(policy, None, make_optimizer(policy, LOCAL), samples, np.zeros(len(samples)), LOCAL, seed=0)
    assert metrics["update/logprob_gap"] < 1e-5 and metrics["update/clip_share"] == 0


def test_a_step_prompt_drops_the_oldest_turns_to_fit(policy):
    chosen = section(memory="window", memory_kwargs={"history_length": None}, num_groups=1, group_size=1)
    wide, tight = (LocalSection(**{**vars(LOCAL), "max_prompt_tokens": tokens}) for tokens in (400, 60))
    dropped = []
    for local in (wide, tight):
        vector = make_groups(chosen, local, 1, 1)
        agent = make_agent(policy, chosen, local)
        episodes = play(vector, agent, seed=2, split="train", first_group=0, watch=Stopwatch())
        vector.close()
        assert all(len(sample.prompt_ids) <= local.max_prompt_tokens for sample in episodes[0].samples)
        dropped.append(episodes[0].num_turns_dropped)
    assert dropped[0] == 0 < dropped[1]


def test_a_concatenated_conversation_keeps_every_sampled_token(policy):
    chosen = section(context="concatenated", num_groups=1, group_size=2)
    local = LocalSection(**{**vars(LOCAL), "max_prompt_tokens": 400})
    vector = make_groups(chosen, local, 1, 2)
    agent = make_agent(policy, chosen, local)
    episodes = play(vector, agent, seed=2, split="train", first_group=0, watch=Stopwatch())
    vector.close()
    for before, after in zip(episodes[0].samples, episodes[0].samples[1:], strict=False):
        reply = before.reply_ids[:-1] if before.reply_ids[-1] in policy.eos_ids else before.reply_ids
        start = before.prompt_ids + reply
        assert after.prompt_ids[: len(start)] == start
        assert policy.decode(after.prompt_ids[len(start) :]).startswith("\nat ")


def test_panel_scores_do_not_depend_on_the_number_of_environments(policy):
    chosen = section(panel={"split": "test", "size": "all"})
    panel = make_panel(chosen)
    results = [evaluate_policy(policy, chosen, LOCAL, panel, num_envs=number) for number in (1, 4, 10)]
    assert [task.task_index for task in results[0].tasks] == list(range(10))
    assert results[0].tasks == results[1].tasks == results[2].tasks


def test_panels_of_a_recipe(tmp_path):
    sampled = make_panel(section(panel={"size": 4, "seed": 1}))
    assert (
        len(sampled) == 4 and sampled.split == "test" and sampled == make_panel(section(panel={"size": 4, "seed": 1}))
    )
    sampled.save(tmp_path / "panel.json")
    assert make_panel(section(panel=str(tmp_path / "panel.json"))).indices == sampled.indices
    with pytest.raises(ValueError, match="agent_envs/EZPoints-v0"):
        make_panel(section(env_id="agent_envs/EZPoints-v0", panel=str(tmp_path / "panel.json")))
    with pytest.raises(ValueError, match=r"\[1, 10\]"):
        make_panel(section(panel={"size": 11}))
    with pytest.raises(TypeError, match="'most'"):
        make_panel(section(panel={"size": "most"}))


def test_environments_with_images_are_refused(policy):
    with pytest.raises(ValueError, match="obs_mode=text"):
        make_agent(policy, section(env_id="agent_envs/EZPoints-v0"))


def test_similar_observations_form_one_step_group():
    _, episodes = run([RIGHT, LOST, RIGHT], num_groups=1)
    for episode in episodes:
        for before, after in zip(episode.samples, episode.samples[1:], strict=False):
            assert before.seen and before.seen_next == after.seen
    texts = ["a red mug on the desk", "a red mug on the desk.", "an empty drawer"]
    relabelled = []
    for episode in episodes:
        labels = [texts[(episode.samples[0].turn.member + turn) % 2] for turn in range(len(episode.samples) - 1)]
        seen = [*labels, texts[2]]
        samples = [replace(sample, seen=text) for sample, text in zip(episode.samples, seen, strict=True)]
        relabelled.append(replace(episode, samples=tuple(samples)))
    assert set(turn_table(relabelled, similarity=0.99)[1].state) == set(texts)
    _, table = turn_table(relabelled, similarity=0.9)
    assert len(set(table.state)) == 2
    assert turn_table(relabelled)[1].state == turn_table(episodes)[1].state
