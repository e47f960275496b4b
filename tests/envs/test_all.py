"""Every registered id passes Gymnasium's checks and the conformance kit; a new id is picked up by itself."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.check import CHECKS, Subject, trajectory_digest

IDS = agent_envs.registered_ids()
SHIPPED = {
    "agent_envs/Sokoban-v0",
    "agent_envs/EZPoints-v0",
    "agent_envs/Points24-v0",
    "agent_envs/NumberLine-v0",
    "agent_envs/Blackjack-v0",
    "agent_envs/SearchQA-v0",
    "agent_envs/WebShop-v0",
    "agent_envs/ALFWorld-v0",
    "agent_envs/AppWorld-v0",
}


def env_class(env_id):
    return agent_envs.registration.load_class(gym.spec(env_id).kwargs["env_class"])


def played(env_id):
    """The id as a test parameter; skipped by name where its own installation is missing, slow where it is there."""
    missing = env_class(env_id).unavailable()
    own_installation = env_class(env_id).unavailable.__func__ is not agent_envs.AgentEnv.unavailable.__func__
    marks = [pytest.mark.skip(reason=f"{env_id}: {missing}")] if missing else []
    return pytest.param(env_id, marks=marks + [pytest.mark.slow] * own_installation)


PLAYED = [played(env_id) for env_id in IDS]


def test_every_intended_id_is_registered():
    assert SHIPPED <= set(IDS)


@pytest.mark.parametrize("name", list(CHECKS))
@pytest.mark.parametrize("env_id", PLAYED)
def test_conformance(env_id, name):
    CHECKS[name](Subject(env_id=env_id))


@pytest.mark.parametrize("env_id", PLAYED)
def test_two_instances_play_the_same(env_id):
    subject = Subject(env_id=env_id)
    assert trajectory_digest(subject) == trajectory_digest(subject)


@pytest.mark.parametrize("env_id", PLAYED)
def test_passive_checker_is_silent(env_id):
    env = gym.make(env_id)
    env.reset(seed=0)
    for action in [*env.unwrapped.example_actions(), ""]:
        env.step(action)
    env.close()


@pytest.mark.parametrize("env_id", PLAYED)
def test_factory_survives_pickle(env_id):
    spec = gym.spec(env_id)
    factory = agent_envs.registration.EnvFactory(
        env_class=spec.kwargs["env_class"],
        kwargs={k: v for k, v in spec.kwargs.items() if k not in ("env_class", "executor")},
    )
    here, there = factory(), pickle.loads(pickle.dumps(factory))()
    assert here.reset(seed=1)[1] == there.reset(seed=1)[1]


def test_spawned_process_plays_the_same():
    subjects = [Subject(env_id=env_id) for env_id in IDS if not env_class(env_id).unavailable()]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(trajectory_digest, subjects)) == [trajectory_digest(subject) for subject in subjects]


@pytest.mark.parametrize("env_id", PLAYED)
def test_unknown_keyword_names_the_id(env_id):
    with pytest.raises(TypeError, match="no_such_option.*" + env_id.replace("/", ".")):
        gym.make(env_id, no_such_option=1)


def test_module_colon_id_imports_by_itself():
    assert gym.make("agent_envs:agent_envs/Sokoban-v0").reset(seed=0)[1]["turn"] == 0


def test_docstrings_have_the_fixed_headings():
    for env_id in IDS:
        text = env_class(env_id).__doc__
        for heading in (
            "Description",
            "Action",
            "Observation",
            "Reward",
            "Episode end",
            "Canonical state",
            "Tasks and splits",
            "Arguments",
            "Version history",
        ):
            assert f"## {heading}" in text, f"{env_id}: no heading {heading!r}"
