"""Serial, threads and processes: equal trajectories, errors as data, limits, dead workers, clean ends."""

import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from toy_envs import BrokenBuildEnv, ToyGridEnv, ToyShopEnv, UnpicklableInfoEnv, shop

from agent_envs.executor_processes import _Worker
from agent_envs.groups import GroupVectorEnv

LOCAL = ["serial", "threads"]
ALL = ["serial", "threads", "processes"]
SLOW_PROCESSES = pytest.param("processes", marks=pytest.mark.slow)  # starts workers of its own
LIMIT_S = 0.3  # well above what a busy machine takes from a step that does nothing
HANG = "fault sleep 0.6"


def batch(executor="serial", num_envs=4, group_size=2, factory=shop, **kwargs):
    if executor == "processes":
        kwargs.setdefault("num_workers", 2)
    return GroupVectorEnv(factory, num_envs=num_envs, group_size=group_size, executor=executor, **kwargs)


@pytest.fixture(scope="module")
def shared_workers():
    """Two workers for the tests of this module that leave them able to reset: starting a process takes a second."""
    vec = batch("processes", factory=functools.partial(shop, fail_resets=(4,)))
    yield vec
    vec.close()


@pytest.fixture
def vec(request, shared_workers):
    if request.param == "processes":
        yield shared_workers
    else:
        made = batch(request.param, factory=functools.partial(shop, fail_resets=(4,)))
        yield made
        made.close()


over_all = pytest.mark.parametrize("vec", ALL, indirect=True)


def trajectory(vec):
    """Everything that a batch returns over two episodes with failures, subsets and idle groups."""
    script = [
        (["open 1", "open 2", "draw", "nonsense"], None),
        (["buy", "back", "fault raise", "draw"], None),
        (["draw", "open 2"], [3, 1]),
        (["fault nan", "draw", "draw", "draw"], None),
        (["draw"] * 4, None),
    ]
    record = []
    for seed, options in ((0, {"task_index": [2, 3]}), (1, {"split": "test"}), (2, {"task_index": [4, -1]})):
        results = [vec.reset(seed=seed, options=options)] + [vec.step(actions, rows) for actions, rows in script]
        for result in results:
            record.append([np.asarray(part).tolist() for part in result[:-1]])
            record.append({key: value.tolist() for key, value in result[-1].items()})
    return record


@pytest.mark.parametrize("vec", ["threads", "processes"], indirect=True)
def test_trajectories_are_equal_row_by_row(vec):
    serial = batch("serial", factory=functools.partial(shop, fail_resets=(4,)))
    assert trajectory(vec) == trajectory(serial)


@pytest.mark.parametrize("executor", ["threads", SLOW_PROCESSES])
def test_frames_are_equal(executor):
    vectors = [batch(name, factory=ToyGridEnv) for name in ("serial", executor)]
    for step in (lambda v: v.reset(seed=4)[0], lambda v: v.step(["down", "right", "up", "x"])[0]):
        here, there = (step(v) for v in vectors)
        assert (here["image"] == there["image"]).all() and here["text"] == there["text"]
        assert there["image"].dtype == np.uint8
    for v in vectors:
        v.close()


@over_all
@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("fault raise", "error_env: RuntimeError: boom"),
        ("fault service", "error_service: ServiceGone: 503"),
        ("fault connection", "error_service: ConnectionRefusedError: port closed"),
        ("fault quit", "error_env: SystemExit: 3"),
        ("fault nan", "error_env: ValueError: the reward nan is not a finite number"),
        ("fault inf", "error_env: ValueError: the reward inf is not a finite number"),
    ],
)
def test_failing_step_is_data(vec, action, text):
    vec.reset(seed=0, options={"task_index": 1})
    before, *_, earlier = vec.step(["open 1", "open 1", "open 3", "draw"])
    observations, rewards, terminations, truncations, info = vec.step(["buy", action, "draw", "draw"])
    assert info["infra_error"].tolist() == ["", text, "", ""]
    assert truncations.tolist() == [False, True, False, False] and not terminations[1] and rewards[1] == 0.0
    assert info["active"].all() and rewards[0] == 10.0
    assert info["state_key"][1] == earlier["state_key"][1] and info["task_id"][1] == "toyshop/train/1"
    assert info["turn"].tolist() == [2, 1, 2, 2] and info["action_is_valid"].tolist() == [True, False, True, True]
    assert observations[1] == before[1]
    *_, truncations, info = vec.step(["draw"] * 4)
    assert info["active"].tolist() == [False, False, True, True] and truncations[1]
    _, info = vec.reset(seed=0, options={"task_index": 1})  # the environment was rebuilt
    assert info["active"].all() and info["infra_error"].tolist() == [""] * 4
    assert vec.step(["draw"] * 4)[1].all()


@over_all
def test_failing_reset_leaves_the_row_idle(vec):
    observations, info = vec.reset(seed=0, options={"task_index": [4, 1]})
    assert info["active"].tolist() == [False, False, True, True]
    assert info["infra_error"].tolist() == ["error_env: RuntimeError: no shop 4"] * 2 + [""] * 2
    assert info["_state_key"].tolist() == [False, False, True, True] and observations[:2] == ("", "")
    _, rewards, _, truncations, info = vec.step(["draw"] * 4)
    assert truncations.tolist() == [True, True, False, False] and info["active"].tolist() == [False, False, True, True]
    assert vec.reset(seed=0, options={"task_index": 1})[1]["active"].all()


class FailsOnceEnv(ToyShopEnv):
    """The second instance that was ever built cannot reset."""

    count = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        type(self).count += 1
        self._broken = type(self).count == 2

    def _reset_task(self, split, index):
        super()._reset_task(split, index)
        if self._broken:
            raise OSError("disk full")


def test_failed_member_stays_out_of_the_first_key_check_and_is_rebuilt():
    vec = batch(factory=FailsOnceEnv)
    _, info = vec.reset(seed=0)
    assert info["active"].tolist() == [True, False, True, True]
    assert info["infra_error"][1] == "error_env: OSError: disk full"
    assert vec.reset(seed=0)[1]["active"].all()


@pytest.mark.parametrize("executor", LOCAL)
def test_step_over_its_limit(executor):
    vec = batch(executor, step_timeout_s=LIMIT_S)
    vec.reset(seed=0, options={"task_index": 3})
    *_, truncations, info = vec.step(["draw", HANG, "draw", "draw"])
    assert info["infra_error"].tolist() == ["", "error_timeout: step of toyshop/train/3 took over 0.3 s", "", ""]
    assert truncations.tolist() == [False, True, False, False]
    assert vec.step(["draw"] * 4)[1].astype(bool).tolist() == [True, False, True, True]
    _, info = vec.reset(seed=0)
    assert info["active"].all() and vec.step(["draw"] * 4)[1].all()
    vec.close()


class SlowResetEnv(ToyShopEnv):
    def _reset_task(self, split, index):
        super()._reset_task(split, index)
        if index == 2:
            time.sleep(0.6)


@pytest.mark.parametrize("executor", LOCAL)
def test_reset_over_its_limit(executor):
    vec = batch(executor, factory=SlowResetEnv, reset_timeout_s=LIMIT_S)
    _, info = vec.reset(seed=0, options={"task_index": [1, 2]})
    assert info["active"].tolist() == [True, True, False, False]
    assert info["infra_error"][2] == "error_timeout: reset of SlowResetEnv/train/2 took over 0.3 s"
    vec.close()


def test_threads_are_not_blocked_by_calls_that_hang():
    """More hanging calls than threads: each is given up, and the calls queued behind them are played."""

    def stuck_or_idle():
        return {thread for thread in threading.enumerate() if thread.name == "agent_envs-member"}

    before = stuck_or_idle()  # stuck threads of other tests, which may end meanwhile
    vec = batch("threads", 8, 8, num_workers=2, step_timeout_s=LIMIT_S)
    vec.reset(seed=0)
    _, rewards, _, _, info = vec.step(["fault sleep 60"] * 3 + ["draw"] * 5)
    assert [text.startswith("error_timeout") for text in info["infra_error"]] == [True] * 3 + [False] * 5
    assert rewards[3:].all()
    assert len(stuck_or_idle() - before) == 2 + 3
    assert vec.reset(seed=0)[1]["active"].all()
    vec.close()


@pytest.mark.parametrize("executor", LOCAL)
def test_interrupted_batch_needs_a_reset(executor):
    vec = batch(executor)
    vec.reset(seed=0)
    with pytest.raises(KeyboardInterrupt):
        vec.step(["draw", "fault interrupt", "draw", "draw"])
    with pytest.raises(Exception, match="reset"):
        vec.step(["draw"] * 4)
    assert vec.reset(seed=0)[1]["active"].all()
    assert vec.step(["draw"] * 4)[1].all()
    vec.close()


def pids(vec):
    return [worker.process.pid for worker in vec._executor._workers if worker.process is not None]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_dead_worker_fails_its_rows_and_is_replaced_at_the_next_reset(shared_workers):
    vec = shared_workers
    vec.reset(seed=0, options={"task_index": 1})
    old = pids(vec)
    _, rewards, _, truncations, info = vec.step(["draw", "fault die", "draw", "draw"])
    died = "error_env: worker process died (exit code -9)"
    assert info["infra_error"].tolist() == [died, died, "", ""] and truncations.tolist() == [True, True, False, False]
    assert vec.step(["draw"] * 4)[4]["active"].tolist() == [False, False, True, True]
    _, info = vec.reset(seed=0, options={"task_index": 1})
    assert info["active"].all() and vec.step(["draw"] * 4)[1].all()
    assert len(set(old) & set(pids(vec))) == 1 and not alive(old[0])


def test_row_left_out_of_the_fatal_step_fails_when_it_is_stepped(shared_workers):
    vec = shared_workers
    vec.reset(seed=0, options={"task_index": 1})
    vec.step(["fault die"], rows=[3])
    *_, truncations, info = vec.step(["draw"] * 3, rows=[0, 1, 2])
    assert info["infra_error"].tolist()[:3] == ["", "", "error_env: worker process died (exit code -9)"]
    assert truncations.tolist() == [False, False, True, True]


@pytest.mark.slow
def test_limit_in_a_worker_kills_it_and_names_the_row():
    vec = batch("processes", step_timeout_s=LIMIT_S)
    vec.reset(seed=0, options={"task_index": 1})
    old = pids(vec)
    _, rewards, _, truncations, info = vec.step(["draw", "fault sleep 60", "draw", "draw"])
    assert info["infra_error"].tolist() == ["", "error_timeout: step of toyshop/train/1 took over 0.3 s", "", ""]
    assert rewards.astype(bool).tolist() == [True, False, True, True] and not alive(old[0])
    _, _, _, truncations, info = vec.step(["draw"] * 4)
    stopped = "error_env: worker process was stopped, another row of it went over its time limit"
    assert info["infra_error"].tolist() == [stopped, None, "", ""]
    assert vec.reset(seed=0)[1]["active"].all() and vec.step(["draw"] * 4)[1].all()
    vec.close()


@pytest.mark.slow
def test_info_that_does_not_pickle_fails_its_row_only():
    vec = batch("processes", factory=UnpicklableInfoEnv)
    vec.reset(seed=0)
    *_, info = vec.step(["draw", "open 1", "draw", "draw"])
    assert "error_env" in info["infra_error"][1] and "pickle" in info["infra_error"][1]
    assert info["infra_error"][[0, 2, 3]].tolist() == [""] * 3
    assert vec.reset(seed=0)[1]["active"].all()  # with a new environment in that row
    vec.close()


@pytest.mark.slow
@pytest.mark.parametrize("call", [lambda vec: vec.step(["draw"] * 4), lambda vec: vec.fingerprint("train")])
def test_answer_to_an_interrupted_call_is_not_taken_for_that_to_the_next(monkeypatch, call):
    vec = batch("processes")
    vec.reset(seed=0)
    request = _Worker.request

    def interrupted(self, *arguments):
        request(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_Worker, "request", interrupted)
        call(vec)
    assert vec.reset(seed=0)[1]["active"].all() and vec.step(["draw"] * 4)[1].all()
    vec.close()


@pytest.mark.slow
def test_interrupted_start_of_workers_starts_anew(monkeypatch):
    vec = batch("processes")
    vec.reset(seed=0)
    os.kill(pids(vec)[0], signal.SIGKILL)
    vec.step([""] * 4)

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_Worker, "receive", interrupted)
        vec.reset(seed=0)
    assert vec.reset(seed=0)[1]["active"].all() and vec.step(["draw"] * 4)[1].all()
    vec.close()


@pytest.mark.parametrize("executor", [*LOCAL, SLOW_PROCESSES])
def test_environment_that_cannot_be_built_raises_at_once(executor):
    with pytest.raises(FileNotFoundError, match="run make-data"):
        batch(executor, factory=BrokenBuildEnv, num_workers=1)


def test_factory_that_does_not_pickle_is_refused():
    with pytest.raises(ValueError, match="env_factory that pickles"):
        batch("processes", factory=lambda: shop())


@over_all
def test_fingerprint_is_computed_where_the_environments_live(vec):
    assert vec.fingerprint("valid") == ToyShopEnv().fingerprint("test")
    with pytest.raises(ValueError, match="Unknown split 'dev'"):
        vec.fingerprint("dev")


def test_environments_of_workers_are_not_here(shared_workers):
    with pytest.raises(AttributeError, match="live in its workers"):
        shared_workers.envs  # noqa: B018 - a property that refuses


@pytest.mark.slow
def test_close_and_garbage_collection_end_the_workers():
    vec = batch("processes", num_workers=1)
    (pid,) = pids(vec)
    gone = weakref.ref(vec)
    del vec  # nobody called close()
    gc.collect()
    assert gone() is None and not alive(pid)


def test_whole_groups_to_a_worker():
    from agent_envs.executor_processes import ProcessExecutor

    started = []

    class Recorder(ProcessExecutor):
        def _start_missing(self, *, tolerant=False):
            started.extend(worker.rows for worker in self._workers)
            return [None]

    Recorder(shop, num_groups=5, group_size=2, num_processes=2, reset_timeout_s=None, step_timeout_s=None)
    assert started == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]


SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from toy_envs import shop
from agent_envs.groups import GroupVectorEnv

if __name__ == "__main__":
    vec = GroupVectorEnv(shop, num_envs=4, group_size=2, executor="processes", num_workers=2)
    vec.reset(seed=0)
    print(*[worker.process.pid for worker in vec._executor._workers], flush=True)
    if sys.argv[2] == "interrupt":
        vec.step(["fault sleep 60"] * 4)
    elif sys.argv[2] == "kill":
        time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "interrupt", "kill"])
def test_no_worker_outlives_its_parent(tmp_path, how):
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    helpers = str(Path(__file__).parents[1] / "helpers")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, script, helpers, how]
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(0.3)  # into the long call
    if how == "interrupt":
        parent.send_signal(signal.SIGINT)
    elif how == "kill":
        parent.kill()
    _, errors = parent.communicate(timeout=20)
    assert "leaked" not in errors and "resource_tracker" not in errors
    assert ("KeyboardInterrupt" in errors) == (how == "interrupt")
    deadline = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
