"""The conformance kit behind ``agent-envs check ID``: what Gymnasium's ``check_env`` cannot know.

Every check is a function of a :class:`Subject`; it raises ``AssertionError`` with a sentence that says what is wrong
and where to look.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from agent_envs.core import AgentEnv
from agent_envs.keys import canonical_json, digest, observation_json

_TYPES: dict[str, type] = {
    "state_key": str,
    "task_id": str,
    "task": str,
    "turn": int,
    "success": bool,
    "score": float,
    "infra_error": str,
}
_STEP_TYPES: dict[str, type] = {**_TYPES, "action_is_valid": bool, "refusal": str}
_GARBAGE = ("", "no such action", "\N{SNOWMAN}" * 50)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """Outcome of one check."""

    name: str
    ok: bool
    detail: str
    """Empty, or what is wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The environment under test and how hard to test it."""

    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    group_size: int = 4
    num_walks: int = 6
    """Random walks of the key checks."""
    num_tasks: int = 5
    """Tasks on which the example actions must win."""

    def make(self) -> gym.Env[Any, Any]:
        """Return the plain environment."""
        return gym.make(self.env_id, **self.kwargs)

    def base(self) -> AgentEnv:
        """Return the environment without wrappers."""
        env = self.make().unwrapped
        assert isinstance(env, AgentEnv), f"{self.env_id} is a {type(env).__name__}, not a subclass of AgentEnv."
        return env


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a walk, reduced to what must be reproducible."""

    key: str
    action: str
    next_key: str
    state: str
    next_state: str
    outcome: str
    """Reward, flags, validity and observation digest."""


def _outcome(observation: Any, reward: float, terminated: bool, info: Mapping[str, Any]) -> str:
    shown = digest(canonical_json(observation_json(observation)))
    return canonical_json([reward, terminated, info["action_is_valid"], info["success"], info["score"], shown])


def walk(env: AgentEnv, *, split: str, index: int, seed: int) -> Iterator[_Step]:
    """Play one episode that mixes the example actions, admissible actions and refused text."""
    rng = random.Random(seed)
    _, info = env.reset(seed=seed, options={"split": split, "task_index": index})
    pool = sorted(set(env.example_actions()))
    while True:
        key, state = info["state_key"], canonical_json(env.canonical_state())
        draw = rng.random()
        if draw < 0.15:
            action = rng.choice(_GARBAGE)
        elif draw < 0.5 and (example := env.example_actions()):
            action = example[0]
        else:
            action = rng.choice(list(info.get("admissible_actions") or pool or [""]))
        observation, reward, terminated, truncated, info = env.step(action)
        after = canonical_json(env.canonical_state())
        outcome = _outcome(observation, reward, terminated, info)
        yield _Step(key, action, info["state_key"], state, after, outcome)
        if terminated or truncated:
            return


def trajectory_digest(subject: Subject) -> str:
    """Return one digest over keys, outcomes and frames of fixed walks: equal in every process."""
    env = subject.base()
    steps = [
        [step.key, step.action, step.next_key, step.outcome]
        for number in range(3)
        for step in walk(env, split="test", index=number % env.num_tasks("test"), seed=number)
    ]
    env.close()
    return digest(canonical_json(steps))


# ---------------------------------------------------------------------- the checks


def check_gymnasium(subject: Subject) -> None:
    """Gymnasium's ``check_env`` passes with warnings as errors, for one environment and for a group."""
    for extra in ({}, {"group_size": subject.group_size}):
        env = gym.make(subject.env_id, **{**subject.kwargs, **extra})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Render modes are tried by check_render: here they would be tried without a render_mode kwarg.
            check_env(env.unwrapped, skip_render_check=True)
        env.close()


def check_info(subject: Subject) -> None:
    """``info`` holds every documented key with one fixed type, from ``reset`` and ``step``."""
    env = subject.base()
    _, info = env.reset(seed=0)
    _assert_types(info, _TYPES, "reset")
    extras = {key: type(value) for key, value in info.items() if key not in _STEP_TYPES}
    actions = [*_GARBAGE, *env.example_actions()]
    for action in actions:
        observation, reward, _, _, info = env.step(action)
        _assert_types(info, _STEP_TYPES, f"step({action!r})")
        now = {key: type(value) for key, value in info.items() if key not in _STEP_TYPES}
        assert now == extras, f"own info keys change between calls: {extras} then {now}."
        assert type(reward) is float, f"reward must be a float, got {type(reward).__name__}."
        assert observation in env.observation_space, f"observation after {action!r} lies outside observation_space."


def _assert_types(info: Mapping[str, Any], types: Mapping[str, type], where: str) -> None:
    for key, kind in types.items():
        assert key in info, f"info of {where} lacks {key!r}."
        assert type(info[key]) is kind, f"info[{key!r}] of {where} must be {kind.__name__}, got {info[key]!r}."
    assert len(info["state_key"]) == 32, f"state_key of {where} must have 32 hexadecimal digits: {info['state_key']!r}."


def check_tasks(subject: Subject) -> None:
    """``train`` and ``test`` exist, indices name tasks, equal seeds give equal starts, wrong options are refused."""
    env = subject.base()
    for split in ("train", "test"):
        assert env.num_tasks(split) >= 1, f"split {split!r} is empty."
        assert env.fingerprint(split) == subject.base().fingerprint(split), f"fingerprint of {split!r} is not constant."
    starts = [env.reset(seed=7)[1] for _ in range(2)]
    assert starts[0] == starts[1], "reset(seed=7) twice gives other info; draw only from self.np_random."
    first = env.reset(seed=1, options={"task_index": 0})[1]
    second = env.reset(seed=2, options={"task_index": 0})[1]
    assert first["state_key"] == second["state_key"], "task_index=0 starts differently under another seed."
    for options in ({"task_index": env.num_tasks()}, {"split": "no such split"}, {"no_such_option": 1}):
        try:
            env.reset(options=options)
        except ValueError:
            continue
        raise AssertionError(f"reset(options={options}) must raise ValueError.")


def check_refusals(subject: Subject) -> None:
    """A refused action says so, uses a turn and keeps the state key."""
    env = subject.base()
    _, start = env.reset(seed=0)
    for turn, action in enumerate(_GARBAGE[: env.max_turns], 1):
        _, _, terminated, truncated, info = env.step(action)
        assert info["action_is_valid"] is False, f"action {action!r} must be refused."
        assert info["refusal"], f"info['refusal'] must say why {action!r} was refused."
        assert info["turn"] == turn, f"a refused action uses a turn: expected turn {turn}, got {info['turn']}."
        assert info["state_key"] == start["state_key"], (
            f"the refused action {action!r} changed state_key; does canonical_state() hold turns or feedback text?"
        )
        if terminated or truncated:
            break


def check_keys(subject: Subject) -> None:
    """Keys are equal iff canonical states are, and the future depends on the key alone."""
    env = subject.base()
    state_of: dict[str, tuple[int, str]] = {}
    key_of: dict[tuple[int, str], str] = {}
    outcome_of: dict[tuple[str, str], _Step] = {}
    for number in range(subject.num_walks):
        task = number % 2
        for step in walk(env, split="train", index=task % env.num_tasks("train"), seed=number):
            for key, state in ((step.key, step.state), (step.next_key, step.next_state)):
                assert state_of.setdefault(key, (task, state)) == (task, state), f"two states share the key {key}."
                assert key_of.setdefault((task, state), key) == key, f"one state has two keys: {state[:200]}."
            before = outcome_of.setdefault((step.key, step.action), step)
            same = before.next_key == step.next_key and before.outcome == step.outcome
            assert same, (
                f"action {step.action!r} in the same state led to another state, reward or observation; "
                f"canonical_state() lacks something the future depends on: {step.state[:200]}."
            )


def check_oracle(subject: Subject) -> None:
    """The example actions win, with a full score, within the turn limit."""
    env = subject.base()
    for split in ("train", "test"):
        total, solved, tried = env.num_tasks(split), 0, 0
        for number in range(min(subject.num_tasks, total)):
            index = number * total // subject.num_tasks if total > subject.num_tasks else number
            _, info = env.reset(seed=0, options={"split": split, "task_index": index})
            walk_actions = env.example_actions()
            if not walk_actions or len(walk_actions) > env.max_turns:
                continue  # no way to win within max_turns: chance games, long levels
            tried += 1
            for action in walk_actions:
                _, _, terminated, _, info = env.step(action)
                assert info["action_is_valid"], (
                    f"example action {action!r} of {info['task_id']} was refused: {info['refusal']}."
                )
            solved += bool(info["success"] and terminated)
        needed = 1 if env.metadata.get("chance") else tried
        assert tried, f"no task of {split!r} has a winning walk within max_turns={env.max_turns}."
        assert solved >= needed, f"example actions win {solved} of {tried} tasks of {split!r}."


def check_finished(subject: Subject) -> None:
    """A step after the end changes nothing: reward 0, same flags, same key."""
    env = subject.base()
    env.reset(seed=0)
    terminated = truncated = False
    info: dict[str, Any] = {}
    while not (terminated or truncated):
        action = (env.example_actions() or [""])[0]
        _, _, terminated, truncated, info = env.step(action)
    _, reward, after_terminated, after_truncated, after = env.step((env.example_actions() or [""])[0])
    assert reward == 0.0, f"a step after the end pays {reward}, must be 0."
    assert (after_terminated, after_truncated) == (terminated, truncated), "a step after the end changed the flags."
    assert after["state_key"] == info["state_key"], "a step after the end changed the state."


def check_groups(subject: Subject) -> None:
    """Members of a group share task and first key; finished and unnamed rows idle."""
    size = subject.group_size
    vector = gym.make_vec(subject.env_id, num_envs=2 * size, group_size=size, **subject.kwargs)
    try:
        _, info = vector.reset(seed=0)
        for name in ("task_id", "state_key"):
            rows = np.asarray(info[name]).reshape(2, size)
            assert (rows == rows[:, :1]).all(), f"members of one group start with different {name}."
        env = cast(Any, vector)
        _, _, _, _, info = env.step([""], rows=[1])
        assert info["active"].tolist() == [row == 1 for row in range(2 * size)], "step(rows=[1]) moved other rows."
    finally:
        vector.close()


def check_snapshot(subject: Subject) -> None:
    """After ``restore`` the key is the same and every later step is as if nothing had happened."""
    env, other = subject.base(), subject.base()
    if not env.SUPPORTS_SNAPSHOT:
        return
    env.reset(seed=3)
    for action in env.example_actions()[:2]:
        env.step(action)
    saved = env.snapshot()
    other.restore(saved)
    assert other.state_key() == env.state_key(), "the key after restore differs."
    actions = [*env.example_actions(), ""]
    here = [_plain(env.step(action)) for action in actions]
    there = [_plain(other.step(action)) for action in actions]
    assert here == there, "steps after restore differ from steps without it."
    assert _plain(env.reset()) == _plain(other.reset()), "the next reset after restore differs."


def _plain(result: tuple[Any, ...]) -> str:
    return canonical_json([observation_json(result[0]), *result[1:]])


def check_global_rng(subject: Subject) -> None:
    """No global generator is read or written."""
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global generator is what is being watched
    before = (random.getstate(), canonical_json(np.random.get_state()[1].tolist()))  # type: ignore[index]
    env = subject.base()
    env.reset(seed=1)
    for action in env.example_actions():
        env.step(action)
    after = (random.getstate(), canonical_json(np.random.get_state()[1].tolist()))  # type: ignore[index]
    assert before == after, "the environment uses the global random or np.random."


def check_processes(subject: Subject) -> None:
    """Two processes with other hash seeds play the same walk to the same digest."""
    code = (
        "import sys, json, importlib; [importlib.import_module(m) for m in json.loads(sys.argv[3])];"
        "from agent_envs.check import Subject, trajectory_digest;"
        "print(trajectory_digest(Subject(env_id=sys.argv[1], kwargs=json.loads(sys.argv[2]))))"
    )
    # The module that registered a user's id must be imported in the new process too.
    module = str(gym.spec(subject.env_id).kwargs["env_class"]).partition(":")[0]
    found = set()
    for hash_seed in ("1", "2"):
        argv = [
            sys.executable,
            "-c",
            code,
            subject.env_id,
            json.dumps(dict(subject.kwargs)),
            json.dumps(["agent_envs", module]),
        ]
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False, timeout=300)
        assert done.returncode == 0, f"a second process failed: {done.stderr.strip()[-400:]}"
        found.add(done.stdout.strip())
    assert len(found) == 1, "two processes with other PYTHONHASHSEED play different trajectories."


def check_spec(subject: Subject) -> None:
    """The spec survives JSON, and the environment made from it plays the same."""
    spec = gym.spec(subject.env_id)
    copy = gym.envs.registration.EnvSpec.from_json(spec.to_json())
    env = gym.make(copy, **subject.kwargs)
    assert env.reset(seed=0)[1] == subject.make().reset(seed=0)[1], (
        "the environment made from spec JSON starts differently."
    )


def check_render(subject: Subject) -> None:
    """Every declared render mode returns something: uint8 frames, text."""
    for mode in subject.base().metadata["render_modes"]:
        env = gym.make(subject.env_id, render_mode=mode, **subject.kwargs)
        env.reset(seed=0)
        shown: Any = env.render()
        if mode == "rgb_array":
            good = isinstance(shown, np.ndarray) and shown.dtype == np.uint8 and shown.ndim == 3 and shown.shape[2] == 3
            assert good, "render_mode 'rgb_array' must return an (H, W, 3) uint8 array."
        else:
            assert isinstance(shown, str) and shown, f"render_mode {mode!r} must return text."
        env.close()


CHECKS: dict[str, Callable[[Subject], None]] = {
    "gymnasium check_env": check_gymnasium,
    "info keys and types": check_info,
    "tasks, seeds, options": check_tasks,
    "refused actions": check_refusals,
    "state keys": check_keys,
    "example actions win": check_oracle,
    "finished episodes": check_finished,
    "groups": check_groups,
    "snapshots": check_snapshot,
    "global generators": check_global_rng,
    "two processes": check_processes,
    "spec JSON": check_spec,
    "render modes": check_render,
}


def run_checks(subject: Subject) -> Iterator[CheckResult]:
    """Run every check, one result each; a check that raises is a failed check."""
    for name, check in CHECKS.items():
        try:
            check(subject)
        except Exception as error:  # noqa: BLE001 - any failure of the environment is a finding
            text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            yield CheckResult(name=name, ok=False, detail=text or "failed")
        else:
            yield CheckResult(name=name, ok=True, detail="")
