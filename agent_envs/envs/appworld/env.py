"""The AppWorld environment."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from gymnasium.error import ResetNeeded

from agent_envs.core import AgentEnv
from agent_envs.envs.appworld.client import AppWorldClient, Evaluation, WorldError, WorldState
from agent_envs.envs.appworld.paths import find_data, find_python, problem_of_default
from agent_envs.envs.appworld.pool import OFFICIAL_ENGINE, PoolConfig, borrow_pool
from agent_envs.envs.appworld.remote import RemoteWorld
from agent_envs.envs.appworld.server.world_server import cut_middle
from agent_envs.envs.appworld.tasks import difficulty_of, load_tasks, mini_splits
from agent_envs.keys import digest
from agent_envs.spaces import FreeText

NO_CODE = "No code block found. Put the code between <code> and </code>."

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_FENCE = re.compile(r"(`{3,})[^\n`]*\n(.*?)\n?\1", re.DOTALL)
_FAILED = "Execution failed. Traceback:\n"
# How the official engine answers code that it does not run, and the refusal code for it.
_NOT_RUN = (
    (f"{_FAILED}Syntax error in line:", "syntax_error"),
    (f"{_FAILED}Usage of the following ", "unsafe"),
)
_MAX_CODE_LENGTH = 1 << 20
_OFFICIAL_SETTINGS = {
    "random_seed": 100,
    "raise_on_unsafe_syntax": True,
    "null_patch_unsafe_execution": True,
    "load_ground_truth": True,
    "ground_truth_mode": "minimal",
}


class _World(Protocol):
    client: AppWorldClient

    def evaluate(self) -> Evaluation:
        """Run the tests of the task."""

    def close(self) -> object:
        """End the world."""


def strip_fence(code: str) -> str:
    """Return what one Markdown fence around the whole code holds, else the code; outer blank lines go."""
    text = code.strip()
    match = _FENCE.fullmatch(text)
    return match[2].strip("\n") if match else code.strip("\n").rstrip()


def normalise(result: str) -> str:
    """Return a result as it counts in state keys: no outer blanks, no memory addresses."""
    return _ADDRESS.sub("0x", result.strip())


class AppWorldEnv(AgentEnv):
    """Do what a supervisor asks by writing Python code against the APIs of everyday apps.

    ## Description
    AppWorld simulates apps such as notes, to-do lists, phone, files, music and payments. The agent works for a person,
    the supervisor: it writes a piece of Python code, sees what the code prints, writes the next piece, and ends with
    `apis.supervisor.complete_task(answer=...)`. Whether the task is solved is decided by AppWorld's own evaluation:
    tests on the databases at the end. The code is executed by the official engine, AppWorld 0.1.3.post1, in a process
    of its own; `agent-envs appworld install` sets it up (see `docs/appworld.md`).

    ## Action
    Python code, as the prompt's parser takes it out of `<code>...</code>`; one Markdown fence around all of it is
    removed. Variables and imports persist. `apis` is there, and the modules that AppWorld allows.
    `info["refusal"]` is a code if nothing was executed: `empty` (nothing is sent), `too_long` (over 1,048,576
    characters), `pattern` (see `refuse_patterns`), `syntax_error`, or `unsafe` (a module or function that AppWorld
    forbids). Such a turn counts and changes nothing. Code that raises is a valid action; what it did before stays.

    ## Observation
    Text: at the start the instruction, then the engine's answer: what the code printed, `Execution successful.` if it
    printed nothing, or `Execution failed. Traceback:` with the lines of the agent's own code. Output longer than
    `max_output_chars` is cut in the middle, with a line that says how much is left out.
    `info["supervisor"]` holds `first_name`, `last_name`, `email` and `phone_number`; `info["datetime"]` the frozen time
    of the world. `render()` gives the text (`render_mode="ansi"`).

    ## Reward
    `success_reward` (10) at the end of the episode if all tests of the task pass, else 0. `score` is the fraction of
    tests that pass, 0 until the end; `info["num_tests"]` and `info["num_tests_passed"]` are the counts.

    ## Episode end
    `terminated` when the task was declared complete. `truncated` after `max_turns` turns; the state reached by then is
    evaluated as well and pays by the same rule. A world that dies or hangs for 30 seconds over its time limit ends the
    row with an `infra_error`; the next reset starts a new world.

    ## Canonical state
    `{"database": d, "namespace": n, "result": r, "completed": bool}`: a digest of all rows of all apps (equal whatever
    order changes came in, and equal again after they are undone), a digest of the variables that code has made (plain
    values, functions and classes by content, others by type), and the last result without memory addresses. Refused
    code leaves it as it is. Not in it: the state of `random`, and changes made to imported modules.
    Stock servers (`urls`) do not tell their state: there it is `{"chain": digest of the state before and the result}`.
    `info["key_kind"]` says which one is used, `"canonical"` or `"chain"`.

    ## Tasks and splits
    | split | tasks | scenarios |
    |---|---|---|
    | `train` | 60 | 15 |
    | `dev` | 16 | 4 |
    | `test` | 24 | 6 |

    This is the mini world of this package: 25 scenarios in 6 apps, each for 4 people, in 3 difficulties, built on your
    machine in AppWorld's own apps. `data="official"` takes the benchmark's `train`, `dev`, `test_normal` (alias `test`)
    and `test_challenge`, in the order of its files. Ids are `appworld/<split>/<scenario>_<number>`;
    `agent_envs.envs.appworld.scores` turns outcomes into task and scenario goal completion.

    `example_actions()` is the rest of a stored solution; official tasks come without.

    ## Arguments
    - `max_turns` (50): turns until truncation.
    - `data` ("mini"): `"mini"`, `"official"` (in `APPWORLD_ROOT`, or as installed), or a folder.
    - `difficulties` (None): keep tasks of these difficulties only, such as `[1, 2]`.
    - `appworld_python` (None): interpreter with AppWorld; None takes `AGENT_ENVS_APPWORLD_PYTHON` or the installed.
    - `urls` (None): addresses of running stock servers instead, one per member, such as `["http://127.0.0.1:8000"]`.
    - `timeout_s` (100): seconds a piece of code may run (G2PO: 50).
    - `memory_mb` (2048): memory a world may take beyond what all share.
    - `max_output_chars` (10000): see Observation.
    - `refuse_patterns` ([]): regular expressions; code in which one is found is refused (G2PO: `[.]{3}`, `except`).
    - `success_reward` (10.0): see Reward.
    - `split` ("train"), `state_key` ("canonical"), `render_mode` (None): as in every environment.

    ## Version history
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    STATE_VERSION: ClassVar[int] = 0
    SPLITS: ClassVar[dict[str, int | str]] = mini_splits()
    grace_s: ClassVar[float] = 30.0
    """Seconds after ``timeout_s`` until a world that does not answer is given up."""
    ENGINE: ClassVar[str] = OFFICIAL_ENGINE
    """File that worlds run; a subclass may name another one with the same interface."""

    def __init__(
        self,
        *,
        max_turns: int = 50,
        data: str = "mini",
        difficulties: Sequence[int] | None = None,
        appworld_python: str | None = None,
        urls: Sequence[str] | None = None,
        timeout_s: int = 100,
        memory_mb: int = 2048,
        max_output_chars: int = 10_000,
        refuse_patterns: Sequence[str] = (),
        success_reward: float = 10.0,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        for name, value in (("timeout_s", timeout_s), ("memory_mb", memory_mb), ("max_output_chars", max_output_chars)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an int >= 1, got {value!r}.")
        self._patterns = _compile(refuse_patterns)
        self._urls = _check_urls(urls)
        self._python = "" if self._urls else find_python(appworld_python)
        self._tasks = load_tasks(find_data(data), difficulties)
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self.timeout_s, self.memory_mb, self.max_output_chars = timeout_s, memory_mb, max_output_chars
        self.success_reward = float(success_reward)
        self.observation_space = FreeText(_MAX_CODE_LENGTH + 2 * max_output_chars)
        self.action_space = FreeText(_MAX_CODE_LENGTH)
        self._world: _World | None = None
        self._release = weakref.finalize(self, _nothing)
        self._text, self._result, self._chain = "", "", ""
        self._state: WorldState | None = None
        self._completed = False
        self._supervisor: dict[str, str] = {}
        self._datetime = ""
        self._difficulty = 0
        self._solution: list[str] = []
        self._evaluation = Evaluation(success=False, num_passed=0, num_tests=0)

    @classmethod
    def unavailable(cls) -> str | None:
        """Return why the mini world cannot be played here, or None if it can."""
        return problem_of_default()

    # ------------------------------------------------------------------ tasks

    def splits(self) -> Mapping[str, int | str]:
        """Return split names with their sizes, and aliases with their targets."""
        return self._tasks.splits()

    def task_name(self, split: str, index: int) -> str:
        """Return AppWorld's id of a task, such as ``82e2fac_1``."""
        return self._tasks.ids[split][index]

    def task_source(self, split: str) -> Any:
        """Return ids and digests of the specifications of a split."""
        return {"name": self.name(), "split": split, "tasks": self._tasks.content(split)}

    def _reset_task(self, split: str, index: int) -> None:
        task_id = self.task_name(split, index)
        start = None
        for last_try in (False, True):
            self._close_world()
            world = self._open_world(task_id)
            try:
                start = world.client.initialize(task_id, self._settings())
                break
            except WorldError:
                self._close_world()
                if last_try:
                    raise
        assert start is not None
        self.task = self._text = start.instruction
        self._supervisor, self._datetime = dict(start.supervisor), start.datetime
        self._state, self._result, self._completed = start.state, "", False
        self._chain = digest(self._task_id)
        self._difficulty = difficulty_of(self._tasks.folder, task_id)
        self._solution = self._tasks.solution(task_id)
        self._evaluation = Evaluation(success=False, num_passed=0, num_tests=0)

    def pool_config(self) -> PoolConfig:
        """Return how the worlds of this environment run."""
        return PoolConfig(
            python=self._python,
            data=str(self._tasks.folder),
            warm_task=self._tasks.ids["train"][0],
            memory_mb=self.memory_mb,
            call_timeout_s=self.timeout_s + self.grace_s,
            engine=self.ENGINE,
        )

    def _open_world(self, task_id: str) -> _World:
        world: _World
        if self._urls:
            world = RemoteWorld(self._urls, self.timeout_s + self.grace_s)
        else:
            world = borrow_pool(self.pool_config()).start_world(task_id)
        self._world = world
        self._release = weakref.finalize(self, world.close)  # an environment that is forgotten frees its world
        return world

    def _settings(self) -> dict[str, Any]:
        settings = {**_OFFICIAL_SETTINGS, "timeout_seconds": self.timeout_s, "max_interactions": 1000 + self.max_turns}
        if self._urls:
            return {**settings, "experiment_name": f"agent_envs_{digest(self._urls[0], size=4)}"}
        return {**settings, "max_output_chars": self.max_output_chars}

    def _close_world(self) -> None:
        self._world = None
        self._release()  # calls world.close, once

    # ------------------------------------------------------------------ play

    def _act(self, action: str) -> tuple[float, bool, bool]:
        if self._world is None:
            raise ResetNeeded("The world of this episode was closed; call reset().")
        code = strip_fence(action)
        self.refusal, text = self._refuse(code)
        if self.refusal:
            self._text = text
        else:
            self._execute(self._world, code)
        if self._completed or self._turn + 1 >= self.max_turns:
            self._finish(self._world)
        return (self.success_reward if self.success else 0.0), self._completed, not self.refusal

    def _refuse(self, code: str) -> tuple[str, str]:
        """Return a refusal code and the observation for code that is not sent; both empty if it is."""
        if not code.strip():
            return "empty", NO_CODE
        if len(code) > _MAX_CODE_LENGTH:
            return "too_long", f"The code has {len(code):,} characters, at most {_MAX_CODE_LENGTH:,} are executed."
        for pattern in self._patterns:
            if pattern.search(code):
                return "pattern", f"Code with {pattern.pattern!r} is not executed. Write it without."
        return "", ""

    def _execute(self, world: _World, code: str) -> None:
        before = self._state
        done = world.client.execute(code)
        self._text = cut_middle(done.output, self.max_output_chars)
        reasons = [reason for start, reason in _NOT_RUN if done.output.startswith(start)]
        # A program may print such a text as well; then it has run.
        if reasons and done.state == before and not done.completed:
            self.refusal = reasons[0]
            return
        self._state, self._completed = done.state, done.completed
        self._result = normalise(self._text)
        self._chain = digest(f"{self._chain}\0{self._result}")
        if self._solution and code == strip_fence(self._solution[0]):
            del self._solution[0]

    def _finish(self, world: _World) -> None:
        self._evaluation = world.evaluate()
        self.success, self.score = self._evaluation.success, self._evaluation.score
        self._close_world()  # frees the memory; nothing can be done in it any more

    def _observe(self) -> str:
        return self._text

    def _extra_info(self) -> dict[str, Any]:
        return {
            "supervisor": dict(self._supervisor),
            "datetime": self._datetime,
            "difficulty": self._difficulty,
            "num_tests": self._evaluation.num_tests,
            "num_tests_passed": self._evaluation.num_passed,
            "key_kind": "chain" if self._state is None else "canonical",
        }

    def canonical_state(self) -> Any:
        """Return digests of databases and variables, and the last result; from stock servers a chain of results."""
        if self._state is None:
            return {"chain": self._chain}
        return {
            "database": self._state.database,
            "namespace": self._state.namespace,
            "result": self._result,
            "completed": self._completed,
        }

    def example_actions(self) -> list[str]:
        """Return the pieces of the stored solution that were not executed yet; empty for tasks that have none."""
        return list(self._solution)

    def render(self) -> str | None:
        """Return the current text, or None without a render mode."""
        return self._text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the world. The warm server stays for other environments until this process ends."""
        self._close_world()


def _nothing() -> None:
    """Release of an environment that has no world."""


def _compile(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    if isinstance(patterns, str):
        raise TypeError(f"refuse_patterns must be a list of regular expressions, got the str {patterns!r}.")
    try:
        return [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise ValueError(f"refuse_patterns={list(patterns)!r} holds no regular expression: {error}.") from None


def _check_urls(urls: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(urls, str):
        raise TypeError(f"urls must be a list of addresses, got the str {urls!r}; write [{urls!r}].")
    for url in urls or ():
        AppWorldClient(url)
    return tuple(urls or ())
