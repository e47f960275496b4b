"""The official engine with the mini world; skipped by name where `agent-envs appworld install` has not been run."""

import gymnasium as gym
import pytest

from agent_envs.envs.appworld import pool as pools
from agent_envs.envs.appworld.env import AppWorldEnv
from agent_envs.envs.appworld.pool import borrow_pool

MISSING = AppWorldEnv.unavailable()
pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(MISSING is not None, reason=f"agent_envs/AppWorld-v0: {MISSING}"),
    pytest.mark.filterwarnings("ignore:This kernel lacks"),
]
DONE = "apis.supervisor.complete_task()"


@pytest.fixture(scope="module", autouse=True)
def _end_servers():
    yield
    pools.close_pools()


@pytest.fixture
def env():
    env = AppWorldEnv()
    yield env
    env.close()


def start(env, split="train", index=0):
    return env.reset(seed=0, options={"split": split, "task_index": index})


def test_two_worlds_of_a_group_one_solves_the_task():
    vector = gym.make_vec("agent_envs/AppWorld-v0", num_envs=2, group_size=2)
    _, info = vector.reset(seed=0, options={"split": "test", "task_index": 4})
    assert info["state_key"][0] == info["state_key"][1] and info["task"][0].startswith("Mark the task")
    assert len({env.unwrapped._world.pid for env in vector.envs}) == 2
    cells = vector.envs[0].unwrapped.example_actions()
    keys = []
    for cell in cells[:-1]:
        _, rewards, _, _, info = vector.step([cell, cell])
        keys.append(info["state_key"].tolist())
        assert rewards.tolist() == [0.0, 0.0]
    assert all(one == other for one, other in keys)
    _, rewards, terminated, _, info = vector.step([cells[-1], "import os\nos.system('x')"])
    assert rewards.tolist() == [10.0, 0.0] and terminated.tolist() == [True, False]
    assert info["score"].tolist() == [1.0, 0.0] and info["refusal"].tolist() == ["", "unsafe"]
    assert info["state_key"][1] == keys[-1][1]
    _, rewards, terminated, _, info = vector.step(["", "apis.supervisor.complete_task(answer='no')"])
    assert (rewards[1], terminated[1]) == (0.0, True) and 0 < info["score"][1] < 1
    assert info["infra_error"][1] == ""
    vector.close()


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_every_solution_passes_and_doing_nothing_fails(env, split):
    for index in range(env.num_tasks(split)):
        start(env, split, index)
        info = [env.step(cell) for cell in env.example_actions()][-1][4]
        assert info["success"] and info["score"] == 1.0, f"{info['task_id']}: {info}"
        start(env, split, index)
        _, reward, terminated, _, info = env.step(DONE)
        assert terminated and reward == 0.0 and not info["success"], f"{info['task_id']} is solved by doing nothing"


@pytest.mark.slow
def test_two_runs_give_equal_outputs_and_keys(env):
    runs = []
    for _ in range(2):
        start(env, "test", 20)
        cells = [*env.example_actions()[:-1], "print(token)", "import random\nprint(random.random())", "print(print)"]
        runs.append([(step[0], step[4]["state_key"]) for step in map(env.step, cells)])
    assert runs[0] == runs[1]


@pytest.mark.slow
def test_the_database_digest_is_free_of_order_and_stable_under_undo(env):
    def pin(number, pinned):
        return f"apis.simple_note.update_note(access_token=t, note_id=notes[{number}], pinned={pinned})"

    def play(*cells):
        start(env)
        env.step(env.example_actions()[0])
        env.step("t = token['simple_note']\nfound = apis.simple_note.search_notes(access_token=t, page_limit=20)")
        env.step("notes = sorted(note['note_id'] for note in found if not note['pinned'])")
        states = [env._state.database]
        for cell in cells:
            env.step(cell)
            states.append(env._state.database)
        return states

    one, other = play(pin(0, True), pin(1, True)), play(pin(1, True), pin(0, True))
    assert one[0] == other[0] and one[1] != other[1] and one[2] == other[2] != one[0]
    back = play(pin(0, True), pin(0, False), "found = apis.simple_note.search_notes(access_token=t)", "1 / 0")
    assert back[1] != back[0] and back[2] == back[3] == back[4] == back[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "from appworld.common.utils import read_file\nprint(read_file('/etc/passwd'))",
        "from appworld.common.utils import write_file\nwrite_file('x', '/tmp/agent_envs_escape')",
        "import appworld.common.utils as u\nu.os.posix_spawn('/bin/true', ['true'], {})",
        "import appworld.requester as r\nr.requests.get('http://127.0.0.1/')",
    ],
)
def test_what_the_engine_lets_through_the_sandbox_stops(env, code):
    start(env)
    observation = env.step(code)[0]
    assert observation.startswith("Execution failed.") and (
        "PermissionError" in observation or "not permitted" in observation
    ), observation


@pytest.mark.slow
def test_answers_cannot_be_read_from_a_world(env):
    start(env)
    truth = env._tasks.folder / "tasks" / env.task_name("train", 0) / "ground_truth"
    observation = env.step(
        f"from appworld.common.utils import read_file\nprint(read_file('{truth}/private_data.json'))"
    )[0]
    assert truth.is_dir() and "PermissionError" in observation


@pytest.mark.slow
def test_broken_code_of_every_kind_leaves_the_world_usable():
    env = AppWorldEnv(timeout_s=3, max_output_chars=1000)
    start(env)
    for code, text in (
        ("while True: pass", "timed out after 3 seconds"),
        ("print('x' * 10_000_000)", "characters left out"),
        ("x = [0] * 10**11", "MemoryError"),
        ("print('héllo ☃ 你好')", "héllo ☃ 你好"),
        ("def f(:", "Syntax error in line"),
        ("import socket", "not allowed: socket"),
        ("exit()", "Execution"),
    ):
        assert text in env.step(code)[0]
    assert env.step("print(1 + 1)")[0] == "2\n"
    env.close()


@pytest.mark.slow
def test_the_layers_are_in_force(env):
    start(env)
    layers = {layer.split()[0] for layer in env._world._pool.layers}
    assert "limits" in layers and borrow_pool(env.pool_config()) is env._world._pool
