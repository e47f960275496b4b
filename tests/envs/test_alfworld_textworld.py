"""Backend `textworld`: the official engine behind our environment, one game at a time, nothing left behind.

That it plays like the native engine is shown by test_alfworld_parity.py.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.check import CHECKS, Subject
from agent_envs.envs.alfworld import textworld_cache
from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.env import ALFWorldEnv
from agent_envs.envs.alfworld.gamefile import load_game
from agent_envs.envs.alfworld.generator import GameSpec, generate_game, generate_games
from agent_envs.envs.alfworld.generator_tables import TASK_TYPES
from agent_envs.errors import DependencyNotInstalled, SnapshotError
from agent_envs.groups import GroupVectorEnv

ID = "agent_envs/ALFWorld-v0"
BACKEND = "agent_envs.envs.alfworld.textworld_backend"
PACKAGES = ("textworld", "alfworld", "fast_downward")
installed = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in PACKAGES), reason="needs the extra alfworld"
)


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def engine_class():
    return importlib.import_module(BACKEND).TextworldEngine


def content(seed=0, task_type=TASK_TYPES[0], **changes):
    """Return the content of a small game file; `sentence` replaces its task sentence."""
    game = generate_game(GameSpec(seed=seed, task_type=task_type, size="small"))
    grammar = json.dumps(f"Your task is to: {changes.get('sentence', game.sentence)}.")
    return json.dumps({"pddl_problem": game.problem, "grammar": grammar}).encode()


def run_python(code, **variables):
    """Run code in a fresh interpreter; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return done.stdout


# ---------------------------------------------------------------------- installation


@pytest.mark.parametrize("missing", PACKAGES)
def test_missing_package_is_named_when_the_environment_is_made(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *args: None if name == missing else object())
    monkeypatch.delitem(sys.modules, BACKEND, raising=False)
    with pytest.raises(DependencyNotInstalled, match=rf'{missing} is not installed, .*"agent-envs\[alfworld\]"'):
        textworld_cache.require_packages()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *args: None if name == missing else find(name, *args))
    with pytest.raises(DependencyNotInstalled, match="is not installed"):
        ALFWorldEnv(backend="textworld")
    ALFWorldEnv()  # the default needs none of them


@installed
def test_other_versions_play_without_caches_and_say_so(monkeypatch):
    monkeypatch.setitem(textworld_cache.TESTED_VERSIONS, "textworld", "1.6.0")
    with pytest.warns(UserWarning, match="was tested with .*1.6.0.*plays without its caches"):
        assert textworld_cache._make_swaps() == ()


def test_unknown_official_texts_are_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    with pytest.raises(ValueError, match=r"alfworld 9.9 has unknown texts .*Install .*alfworld==0.4.2"):
        textworld_cache._older_grammar('action help {}\n"You arrive somewhere."')
    with pytest.raises(ValueError, match="unknown texts"):
        textworld_cache._older_domain("(define (domain other))")


# ---------------------------------------------------------------------- play


@installed
@pytest.mark.parametrize("kwargs", [{}, {"grammar": "0.3"}, {"put_alias": True}, {"state_key": "observation"}], ids=str)
def test_both_backends_give_the_same_episode(kwargs):
    official, native = (ALFWorldEnv(backend=name, size="small", **kwargs) for name in ("textworld", "native"))
    for index in range(2):
        options = {"split": "valid_unseen", "task_index": index}
        assert official.reset(options=options) == native.reset(options=options)
        plan = native.example_actions()
        assert official.example_actions() == plan
        swapped = [c.replace("move", "put").replace(" to ", " in/on ") if c[:4] == "move" else c for c in plan]
        for action in ["Look.", "dance", "", "inventory", *(swapped if "put_alias" in kwargs else plan), "look"]:
            assert official.step(action) == native.step(action)
        assert official.success
    assert official.fingerprint("train") == native.fingerprint("train")
    official.close()


@installed
@pytest.mark.parametrize(
    "name", ["state keys", "example actions win", "snapshots", "refused actions", "finished episodes"]
)
def test_conformance(name):
    CHECKS[name](Subject(env_id=ID, kwargs={"backend": "textworld", "size": "small"}))


@installed
def test_snapshots_replay_and_refuse_foreign_ones():
    engine, other = engine_class()(content()), engine_class()(content())
    for command in [*engine.oracle()[:3], "look", "dance", "inventory"]:
        engine.step(command)
    saved = json.loads(json.dumps(engine.snapshot()))
    assert len(saved["commands"]) == 3
    other.step(next(c for c in other.admissible() if c.startswith("go to")))
    before = other.changes()
    foreign = engine_class()(content(seed=1)).snapshot()
    for bad in (foreign, {**saved, "commands": ["dance"]}, {**saved, "commands": [3]}, {"commands": []}, None):
        with pytest.raises(ValueError, match="snapshot"):
            other.restore(bad)
        assert other.changes() == before
    other.restore(saved)
    assert (other.changes(), other.admissible()) == (engine.changes(), engine.admissible())
    assert other.step("look") == engine.step("look")


@installed
def test_snapshot_of_the_other_backend_is_refused():
    official, native = (ALFWorldEnv(backend=name, size="small") for name in ("textworld", "native"))
    for env, other in ((official, native), (native, official)):
        env.reset(options={"task_index": 0})
        other.reset(options={"task_index": 0})
        with pytest.raises(SnapshotError, match="backend|damaged|cannot be restored"):
            other.restore(env.snapshot())


@installed
def test_task_sentence_is_text_and_never_code():
    sentence = "put {1/0} #task# [x] in ; the | box"
    data = content(sentence=sentence)
    assert engine_class()(data).reset() == Engine(load_game(data)).reset()
    assert engine_class()(data).reset().endswith(f"Your task is to: {sentence}.")


@installed
def test_command_must_be_a_text():
    with pytest.raises(TypeError, match="must be a str, got int"):
        engine_class()(content()).step(3)


# ---------------------------------------------------------------------- one process


@installed
def test_official_functions_are_left_as_they_were():
    swaps = textworld_cache.packages().swaps
    assert len(swaps) == 6
    before = [getattr(module, name) for module, name, _ in swaps]
    arguments = list(sys.argv)
    engine_class()(content(seed=7)).step("look")
    assert [getattr(module, name) for module, name, _ in swaps] == before
    assert not {id(value) for value in before} & {id(cached) for _, _, cached in swaps}
    assert sys.argv == arguments and "ALFWORLD_DATA" not in os.environ


@installed
def test_threads_wait_for_each_other():
    contents = [content(seed=seed, task_type=task_type) for seed, task_type in enumerate(TASK_TYPES[:4])]
    answers = {}

    def play(index):
        engine = engine_class()(contents[index])
        answers[index] = [engine.reset(), *(engine.step(command) for command in engine.oracle()), engine.changes()]

    threads = [threading.Thread(target=play, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = dict(answers)
    for index in range(4):
        play(index)
    assert answers == together and len(answers) == 4


@installed
def test_libraries_are_used_again_and_the_process_ends_well():
    code = """
from pathlib import Path
from agent_envs.envs.alfworld.env import ALFWorldEnv
def libraries():
    return len({line.split()[-2] for line in open("/proc/self/maps") if "libdownward" in line})
envs = [ALFWorldEnv(backend="textworld", size="small") for _ in range(3)]
for index in range(4):
    for env in envs:
        env.reset(options={"task_index": index})
        env.step("look")
print(libraries())
for env in envs:
    env.close()
env = ALFWorldEnv(backend="textworld", size="small")
env.reset(seed=0)
del env
print(libraries())
"""
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    assert run_python(code).split() == ["3", "3"]


@installed
def test_nothing_is_written_outside_the_temporary_folder(tmp_path):
    generate_games(tmp_path / "games" / "train", [GameSpec(seed=1, task_type=TASK_TYPES[0], size="small")])
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "games").rglob("*")}
    home = tmp_path / "home"
    home.mkdir()
    code = f"""
from agent_envs.envs.alfworld.env import ALFWorldEnv
env = ALFWorldEnv(backend="textworld", data_dir={str(tmp_path / "games")!r})
env.reset(seed=0)
env.step("look")
assert ALFWorldEnv(size="full").splits()["train"] == 3553  # generated games still: no variable was left behind
"""
    run_python(code, HOME=str(home), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert not list(home.iterdir())
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "games").rglob("*")} == files


@installed
@pytest.mark.slow
def test_memory_stays_bounded():
    code = """
from agent_envs.envs.alfworld.env import ALFWorldEnv
env = ALFWorldEnv(backend="textworld", size="small")
def play(first, last):
    for index in range(first, last):
        env.reset(options={"task_index": index})
        env.step("look")
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
full = play(0, 100)  # the caches are full
print(play(100, 300) - full)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    assert float(run_python(code)) < 25


# ---------------------------------------------------------------------- groups


@installed
def test_threads_are_refused_with_the_reason():
    for make in (
        lambda: gym.make_vec(ID, num_envs=2, group_size=2, backend="textworld", executor="threads"),
        lambda: GroupVectorEnv(lambda: ALFWorldEnv(backend="textworld"), num_envs=2, group_size=2, executor="threads"),
    ):
        with pytest.raises(ValueError, match="'threads' is not possible here: .*textworld.* Use executor='processes'"):
            make()
    assert gym.make_vec(ID, num_envs=2, group_size=2, executor="threads").executor == "threads"


def test_defaults_of_groups():
    defaults = ALFWorldEnv.group_defaults({"backend": "textworld"})
    assert defaults == {"executor": "processes", "reset_timeout_s": 60.0}
    assert ALFWorldEnv.group_defaults({"backend": "native"}) == {"executor": "serial"}
    assert gym.make_vec(ID, num_envs=2, group_size=2).executor == "serial"


@installed
def test_groups_play_in_worker_processes_and_give_the_native_keys():
    native = gym.make_vec(ID, num_envs=4, group_size=2, size="small")
    official = gym.make_vec(ID, num_envs=4, group_size=2, size="small", backend="textworld")
    assert official.executor == "processes"
    try:
        (texts, infos), (other_texts, other_infos) = (vector.reset(seed=3) for vector in (native, official))
        assert list(texts) == list(other_texts) and list(infos["state_key"]) == list(other_infos["state_key"])
        for _ in range(3):
            actions = [commands[-1] for commands in infos["admissible_actions"]]
            infos, other_infos = (vector.step(actions)[-1] for vector in (native, official))
            assert list(infos["state_key"]) == list(other_infos["state_key"])
    finally:
        native.close()
        official.close()


@installed
def test_reset_over_its_limit_is_an_error_that_names_the_task():
    vector = gym.make_vec(ID, num_envs=2, group_size=1, num_workers=1, backend="textworld", reset_timeout_s=0.01)
    try:
        _, infos = vector.reset(seed=0, options={"task_index": [5, -1]})
        assert infos["infra_error"][0] == "error_timeout: reset of ALFWorldEnv/train/5 took over 0.01 s"
        assert list(infos["active"]) == [False, False]
    finally:
        vector.close()
