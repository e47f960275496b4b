"""Which goals WebShop's splits hold, wrong arguments, and one shop shared by all environments of a process."""

import gc
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the id
from agent_envs.envs.webshop import shop
from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.shop import choose_shop, open_shop

OFFICIAL_FORMAT = Path(__file__).parents[1] / "data" / "webshop" / "catalogue_a"


@pytest.fixture(autouse=True)
def own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data of the machine's user, and nothing written to the cache of the user."""
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def start(index: int = 3, *, split: str = "test", **kwargs: Any) -> WebShopEnv:
    env = WebShopEnv(**kwargs)
    env.reset(seed=0, options={"split": split, "task_index": index})
    return env


def play(env: WebShopEnv, *actions: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
    return [env.step(action) for action in actions][-1]


# Tasks


def test_splits_of_both_schemes() -> None:
    papers, original = WebShopEnv(), WebShopEnv(split_scheme="original")
    assert papers.splits() == papers.SPLITS == {"train": 10_587, "test": 500}
    assert original.splits() == {"train": 9_587, "eval": 1_000, "test": 500}
    texts = [
        env.reset(options={"split": split, "task_index": index})[1]["task"]
        for env, split, index in (
            (papers, "train", 1000),
            (original, "train", 0),
            (papers, "train", 0),
            (original, "eval", 0),
            (papers, "test", 499),
            (original, "test", 499),
        )
    ]
    assert texts[::2] == texts[1::2]


def test_fault_f6_an_instruction_can_be_gone_back_to() -> None:
    env = WebShopEnv()
    _, info = env.reset(seed=5)
    assert info["task_id"] == f"webshop/train/{env.task_index}"
    index = env.task_index
    env.reset(seed=6)
    _, again = env.reset(seed=7, options={"task_index": index})
    assert {key: again[key] for key in ("task_id", "task", "state_key")} == {
        key: info[key] for key in ("task_id", "task", "state_key")
    }


def test_fault_a3_a_goal_is_the_same_in_pools_with_other_seeds() -> None:
    tasks = []
    for seed in (0, 7):
        pool = gym.make_vec("agent_envs/WebShop-v0", num_envs=2, group_size=1)
        observations, info = pool.reset(seed=seed, options={"split": "test", "task_index": 17})
        tasks.append((observations, list(info["task"]), list(info["state_key"])))
        pool.close()
    assert tasks[0] == tasks[1]
    assert len(set(tasks[0][2])) == 1


@pytest.mark.slow
def test_fault_a3_a_goal_is_the_same_in_another_process() -> None:
    code = (
        "import random; random.seed(7); from agent_envs.envs.webshop.env import WebShopEnv as E;"
        "o, i = E().reset(seed=7, options={'split': 'test', 'task_index': 17}); print(o, i['state_key'])"
    )
    environment = {"PYTHONHASHSEED": "5", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    observation, info = WebShopEnv().reset(options={"split": "test", "task_index": 17})
    assert done.stdout.strip() == f"{observation} {info['state_key']}"


def test_fault_a5_members_of_a_group_start_in_the_same_state() -> None:
    pool = gym.make_vec("agent_envs/WebShop-v0", num_envs=12, group_size=4)
    _, info = pool.reset(seed=3)
    keys = list(info["state_key"])
    assert all(len(set(keys[first : first + 4])) == 1 for first in (0, 4, 8))
    assert len(set(keys)) == 3
    pool.close()


def test_weighted_draws_stay_in_the_split_and_follow_the_weights() -> None:
    env = WebShopEnv(sampling="weighted", split="test")
    drawn = [env.reset(seed=seed)[1]["task_id"] for seed in range(40)]
    assert drawn == [env.reset(seed=seed)[1]["task_id"] for seed in range(40)]
    assert all(task.startswith("webshop/test/") for task in drawn)
    assert env.reset(seed=0, options={"task_index": 7})[1]["task_id"] == "webshop/test/7"
    env, drawn_weights = WebShopEnv(sampling="weighted"), []
    for seed in range(300):
        env.reset(seed=seed)
        goal_index = 500 + env.task_index
        drawn_weights.append(env.engine.goals[goal_index - 1].weight)  # officially goal i has the weight of goal i - 1
    plain_weights = [env.engine.goals[goal_index].weight for goal_index in range(500, 11_000, 35)]
    assert sum(drawn_weights) / 300 > 1.1 * sum(plain_weights) / 300


def test_human_goals_and_fewer_products() -> None:
    env = start(goals="human")
    assert play(env, *env.example_actions())[1] == 10.0
    few = WebShopEnv(num_products=200)
    assert len(few.engine.catalogue) == 200
    assert few.num_tasks("test") == 500 and few.num_tasks("train") < 2_000
    prints = {e.fingerprint("test") for e in (env, few, WebShopEnv(), WebShopEnv(nouns="rule"))}
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"data": "tiny"}, "Unknown data 'tiny'. Known: full, generated, small."),
        ({"data": "small"}, "pass data_dir=, or set WEBSHOP_DATA.*agent-envs data webshop --download"),
        ({"data": "generated", "data_dir": "/x"}, "leave out data_dir='/x'"),
        ({"data_dir": "/nowhere"}, "/nowhere/items_shuffle_1000.json"),
        ({"goals": "humans"}, "Unknown goals 'humans'. Did you mean 'human'"),
        ({"nouns": "nltk"}, "Unknown nouns 'nltk'"),
        ({"num_products": 0}, "num_products must be at least 1, got 0"),
        ({"num_products": 2.5}, "num_products must be an int or None, got 2.5"),
        ({"num_products": True}, "num_products must be an int or None, got True"),
        ({"num_products": 20}, "needs more than 500 goals, these products give"),
        ({"split_scheme": "mine"}, "Unknown split_scheme 'mine'"),
        ({"sampling": "rare"}, "Unknown sampling 'rare'"),
        ({"obs_style": "html"}, "Unknown obs_style 'html'"),
        ({"reward_mode": "score"}, "Unknown reward_mode 'score'"),
        ({"split": "dev"}, "Unknown split 'dev'"),
        ({"split": "eval"}, "Unknown split 'eval'"),
        ({"max_turns": 0}, "max_turns must be an int >= 1"),
        ({"render_mode": "human"}, "Unknown render_mode 'human'"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=text):
        WebShopEnv(**kwargs)


# One shop for all


def test_fault_e5_128_environments_cost_less_than_twice_one() -> None:
    shop._open.cache_clear()
    gc.collect()
    tracemalloc.start()
    envs = [start()]
    one = tracemalloc.get_traced_memory()[0]
    envs += [start(index) for index in range(127)]
    many = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert many < 2 * one
    assert len({id(env.engine) for env in envs}) == 1


@pytest.mark.slow
def test_fault_e5_resident_memory_of_128_environments() -> None:
    benchmark = Path(__file__).parents[2] / "benchmarks" / "webshop.py"
    done = subprocess.run([sys.executable, str(benchmark), "--memory"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["128 against 1"] < 2.0


def test_threads_that_start_together_open_one_shop() -> None:
    choice = choose_shop(data_dir=str(OFFICIAL_FORMAT), nouns="rule")
    shop._open.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        shops = list(pool.map(lambda _: open_shop(choice), range(8)))
    assert len(set(map(id, shops))) == 1


def test_environments_in_threads_do_not_meet() -> None:
    def score(index: int) -> float:
        env = start(index)
        return play(env, *env.example_actions())[1]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(score, range(32))) == [10.0] * 32


def test_500_environments_leave_nothing_behind() -> None:
    def cycle() -> None:
        env = gym.make("agent_envs/WebShop-v0", disable_env_checker=True)
        env.reset(seed=0)
        env.step("search[lamp]")
        env.close()

    cycle()
    gc.collect()
    threads, files, objects = threading.active_count(), len(os.listdir("/proc/self/fd")), len(gc.get_objects())
    for _ in range(500):
        cycle()
    gc.collect()
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, files)
    assert len(gc.get_objects()) < objects + 500
    assert not any(type(thing) is WebShopEnv for thing in gc.get_objects())


def test_fault_f4_f5_neither_java_nor_an_index_on_disk_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(subprocess, "Popen", None)
    shop._open.cache_clear()
    env = start(data_dir=str(OFFICIAL_FORMAT), nouns="rule")
    assert play(env, *env.example_actions())[1] == 10.0
    assert not (tmp_path / "cache").exists()
    assert not [name for name in sys.modules if name.split(".")[0] in ("jnius", "pyserini", "gym")]
