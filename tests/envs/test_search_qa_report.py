"""Search QA: scores per data set and searches per question."""

import gymnasium as gym
import pytest

from agent_envs import Panel
from agent_envs.envs.search_qa.report import make_report
from agent_envs.panels import evaluate

ENV_ID = "agent_envs/SearchQA-v0"


def test_the_oracle_scores_1_with_one_search_per_hop():
    env = gym.make(ENV_ID, corpus="factbook").unwrapped
    panel = Panel.sample(env, env_id=ENV_ID, split="test", size=24, seed=0, env_kwargs={"corpus": "factbook"})
    batch = gym.make_vec(ENV_ID, num_envs=8, group_size=2, corpus="factbook")

    def oracle(observations, infos, rows):
        return [batch.envs[row].unwrapped.example_actions()[0] for row in rows]

    report = make_report(evaluate(oracle, panel, batch))
    batch.close()
    assert [score.name for score in report.sources] == ["factbook", "factbook_two_hop"]
    assert report.average == 1.0 and sum(score.num_tasks for score in report.sources) == 24
    single, multi = report.hops
    assert (single.name, single.searches, multi.name) == ("single-hop", 1.0, "multi-hop")
    assert 1.0 < multi.searches <= 2.0
    assert "| multi-hop |" in report.table() and report.table().endswith("| average over data sets | | 1.000 | | |")


def test_results_of_other_environments_are_refused():
    env = gym.make("agent_envs/EZPoints-v0", obs_mode="text").unwrapped
    panel = Panel.sample(env, env_id="agent_envs/EZPoints-v0", split="test", size=2, env_kwargs={"obs_mode": "text"})
    batch = gym.make_vec("agent_envs/EZPoints-v0", num_envs=2, group_size=1, obs_mode="text")
    result = evaluate(lambda observations, infos, rows: ["x"] * len(rows), panel, batch)
    batch.close()
    with pytest.raises(ValueError, match="not of Search QA"):
        make_report(result)
