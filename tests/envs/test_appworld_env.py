"""AppWorldEnv, its client, launcher and server, on the fake engine in real sandboxed processes."""

import gc
import http.client
import os
import signal
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from appworld_fake_env import DONE, PIN, WHO, FakeAppWorldEnv, make_data
from gymnasium.error import ResetNeeded

import agent_envs
from agent_envs.check import CHECKS, Subject
from agent_envs.envs.appworld import pool as pools
from agent_envs.envs.appworld.client import AppWorldClient, WorldError
from agent_envs.envs.appworld.env import NO_CODE

pytestmark = [
    pytest.mark.service,
    # Kernels without Landlock or seccomp still run the worlds; the launcher warns.
    pytest.mark.filterwarnings("ignore:This kernel lacks"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    yield make_data(tmp_path_factory.mktemp("appworld"))
    pools.close_pools()


@pytest.fixture
def env(data):
    env = FakeAppWorldEnv(data=data, timeout_s=5)
    yield env
    env.close()


@pytest.fixture
def fake_id(data):
    agent_envs.register_env(
        "fakes/AppWorld-v0",
        "appworld_fake_env:FakeAppWorldEnv",
        max_turns=8,
        executor="threads",
        data=data,
        timeout_s=5,
    )
    yield "fakes/AppWorld-v0"
    del gym.registry["fakes/AppWorld-v0"]


def start(env, index=0, **options):
    return env.reset(seed=0, options={"task_index": index, **options})


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_reset_tells_the_task(env):
    observation, info = start(env)
    assert observation == info["task"] == "Pin the note 'Trip'."
    assert info["supervisor"] == WHO and info["datetime"] == "2024-03-15T10:00:00"
    assert info["task_id"] == "fakeappworld/train/aa_1" and info["key_kind"] == "canonical" and info["difficulty"] == 1


def test_a_solution_pays_and_another_does_not(env):
    for cells, reward, score in (([PIN.format(0), DONE], 10.0, 1.0), ([PIN.format(1), DONE], 0.0, 0.5)):
        start(env)
        steps = [env.step(cell) for cell in cells]
        assert [step[2] for step in steps] == [False, True] and steps[0][1] == 0.0
        assert steps[-1][1] == reward and steps[-1][4]["score"] == score
        assert steps[-1][4]["success"] is (reward > 0) and steps[-1][4]["num_tests"] == 2


def test_the_turn_limit_evaluates_what_is_there(data):
    env = FakeAppWorldEnv(data=data, max_turns=1)
    start(env)
    _, reward, terminated, truncated, info = env.step("x = 1")
    assert (reward, terminated, truncated, info["num_tests_passed"]) == (0.0, False, True, 1)
    env.close()


def test_variables_persist_and_an_exception_keeps_what_was_done(env):
    start(env)
    key = env.step("x = 41")[4]["state_key"]
    assert env.step("print(x + 1)")[0] == "42\n"
    observation, _, _, _, info = env.step("x = 7\n1 / 0")
    assert "ZeroDivisionError" in observation and info["action_is_valid"] and info["state_key"] != key
    assert env.step("print(x)")[0] == "7\n"


@pytest.mark.parametrize("action", ["", "  \n ", "```python\n```"])
def test_no_code_executes_nothing(env, action):
    _, info = start(env)
    observation, reward, _, _, after = env.step(action)
    assert observation == NO_CODE and reward == 0.0
    assert (after["action_is_valid"], after["refusal"], after["turn"]) == (False, "empty", 1)
    assert after["state_key"] == info["state_key"]


@pytest.mark.parametrize(("code", "refusal"), [("for", "syntax_error"), ("import os\nos.system('x')", "unsafe")])
def test_code_that_the_engine_refuses_keeps_the_state(env, code, refusal):
    env.reset(seed=0)
    before = env.step("y = 1")[4]["state_key"]
    observation, _, _, _, info = env.step(code)
    assert observation.startswith("Execution failed.") and info["refusal"] == refusal
    assert not info["action_is_valid"] and info["state_key"] == before


def test_a_program_cannot_pretend_to_be_refused(env):
    start(env)
    text = "Execution failed. Traceback:\\nSyntax error in line:"
    info = env.step(f"z = 1\nprint('{text}')")[4]
    assert info["action_is_valid"]


def test_fences_around_the_code_go(env):
    start(env)
    assert env.step("```python\nprint('a')\n```")[0] == "a\n"
    assert env.step("print('```')")[0] == "```\n"


def test_refuse_patterns_is_an_option(data):
    env = FakeAppWorldEnv(data=data, refuse_patterns=[r"[.]{3}", r"\bexcept\b"])
    start(env)
    assert env.step("...")[4]["refusal"] == "pattern"
    assert env.step("x = 1")[4]["action_is_valid"]
    env.close()


def test_order_of_changes_does_not_matter_to_the_key(env):
    keys = []
    for cells in ((PIN.format(1), PIN.format(2)), (PIN.format(2), PIN.format(1))):
        start(env)
        keys.append([env.step(cell)[4]["state_key"] for cell in cells])
    assert keys[0][1] == keys[1][1] and keys[0][0] != keys[1][0]


def test_long_output_is_cut_in_the_middle(data):
    env = FakeAppWorldEnv(data=data, max_output_chars=100)
    start(env)
    observation = env.step("print('a' * 5_000_000 + 'b')")[0]
    assert observation.startswith("a" * 50 + "\n[... ") and observation.endswith("b\n") and len(observation) < 200
    assert env.step("print('é☃' * 3)")[0] == "é☃é☃é☃\n"
    env.close()


def test_an_endless_loop_times_out(data):
    env = FakeAppWorldEnv(data=data, timeout_s=1)
    start(env)
    observation, _, _, _, info = env.step("while True: pass")
    assert "timed out after 1 seconds" in observation and info["action_is_valid"]
    assert env.step("print(1)")[0] == "1\n"
    env.close()


def test_a_world_that_hangs_is_an_error_row_and_the_batch_goes_on(data, fake_id):
    stubborn = "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass"
    vector = gym.make_vec(fake_id, num_envs=2, group_size=2, timeout_s=1)
    vector.reset(seed=0, options={"task_index": 0})
    _, rewards, _, truncated, info = vector.step([stubborn, "print(1)"])
    assert info["infra_error"][0].startswith("error_timeout: WorldTimeoutError") and info["infra_error"][1] == ""
    assert truncated.tolist() == [True, False] and rewards.tolist() == [0.0, 0.0]
    _, info = vector.reset(seed=0)
    assert info["active"].all()
    vector.close()


def test_a_killed_world_is_an_error_row_and_the_next_reset_works(fake_id):
    vector = gym.make_vec(fake_id, num_envs=4, group_size=2)
    vector.reset(seed=0, options={"task_index": [0, 1]})
    os.kill(vector.envs[1].unwrapped._world.pid, signal.SIGKILL)
    _, _, _, truncated, info = vector.step(["x = 1"] * 4)
    assert (
        info["infra_error"][1].startswith("error_service: WorldError") and "process has ended" in info["infra_error"][1]
    )
    assert truncated.tolist() == [False, True, False, False]
    _, info = vector.reset(seed=1)
    assert info["active"].all() and set(info["infra_error"]) == {""}
    vector.close()


def test_members_have_distinct_worlds_and_share_the_first_key(fake_id):
    vector = gym.make_vec(fake_id, num_envs=4, group_size=4)
    _, info = vector.reset(seed=0, options={"task_index": 0})
    assert len(set(info["state_key"])) == 1
    pids = {env.unwrapped._world.pid for env in vector.envs}
    assert len(pids) == 4
    vector.step([PIN.format(0), "x = 1", "x = 1", "x = 2"])
    _, _, terminated, _, info = vector.step([DONE, "print(x)", "print(x)", "print(x)"])
    assert terminated.tolist() == [True, False, False, False] and info["success"].tolist() == [True] + [False] * 3
    assert info["state_key"][1] == info["state_key"][2] != info["state_key"][3]
    vector.close()


def test_the_server_restarts_after_its_death(env):
    start(env)
    server = pools.borrow_pool(env.pool_config())
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    with pytest.raises(WorldError, match="process has ended"):
        env.step("x = 1")
    assert start(env)[1]["turn"] == 0


def test_cycles_leave_no_process_port_or_thread(data):
    env = FakeAppWorldEnv(data=data, timeout_s=5)
    start(env)
    server = pools.borrow_pool(env.pool_config())
    pid, threads = server._process.pid, threading.active_count()
    port = env._world.client._connection.port
    env.close()
    for _ in range(20):
        env = FakeAppWorldEnv(data=data, timeout_s=5)
        start(env)
        env.step("x = 1")
        env.close()
    assert children(pid) == [] and threading.active_count() == threads
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=1).connect()
    assert list(server._outputs.iterdir()) == []


def test_a_forgotten_environment_frees_its_world(data):
    env = FakeAppWorldEnv(data=data, timeout_s=5)
    start(env)
    server = pools.borrow_pool(env.pool_config())
    mine = env._world.pid
    del env
    gc.collect()
    assert mine not in children(server._process.pid)


def test_worlds_die_with_the_server_and_the_server_with_its_input(data):
    env = FakeAppWorldEnv(data=data, timeout_s=6)
    start(env)
    process, world = pools.borrow_pool(env.pool_config())._process, env._world.pid
    process.stdin.close()
    assert process.wait(10) == 0
    assert not Path(f"/proc/{world}").exists()
    env.close()


def test_a_wrong_token_and_a_foreign_task_are_refused(env):
    start(env)
    good = env._world.client
    with pytest.raises(WorldError, match="HTTP 500.*active task is aa_1, not zz_1"):
        good._post("/execute", {"task_id": "zz_1", "code": "1"})
    good.disconnect()
    for token in ("", "wrong"):
        client = AppWorldClient(good.url, token=token, timeout_s=5)
        with pytest.raises(WorldError, match="HTTP 401"):
            client.evaluate()
        client.disconnect()
    assert env.step("print(1)")[0] == "1\n"


def test_worlds_listen_on_loopback_only(env):
    start(env)
    port = env._world.client._connection.port
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = [row[1] for row in listening if row[3] == "0A" and int(row[1].split(":")[1], 16) == port]
    assert addresses == [f"0100007F:{port:04X}"]


def test_a_server_that_cannot_start_says_why(data, tmp_path):
    folder = Path(data) / "data"
    config = pools.PoolConfig(
        python=os.sys.executable, data=str(folder), warm_task="broken_1", engine=FakeAppWorldEnv.ENGINE
    )
    pool = pools.WorldPool(config)
    with pytest.raises(WorldError, match="the data are broken"):
        pool.start_world("aa_1")
    pool.close()


def test_a_step_without_a_world_says_so(env):
    start(env)
    env.close()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step("x = 1")


def test_the_parents_clock_runs(env):
    before = time.time()
    start(env)
    assert time.time() > before


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in ("two processes", "spec JSON")])
def test_conformance(fake_id, name):
    CHECKS[name](Subject(env_id=fake_id, num_walks=4))


def test_rows_of_a_batch_carry_the_supervisor(fake_id):
    vector = gym.make_vec(fake_id, num_envs=2, group_size=2)
    _, info = vector.reset(seed=0)
    assert info["supervisor"][1] == WHO and info["num_tests"].dtype == np.int64
    vector.close()
