"""The ALFWorld environment."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

from gymnasium.error import ResetNeeded

from agent_envs.core import AgentEnv
from agent_envs.envs.alfworld.commands import tidy_command
from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import load_game
from agent_envs.envs.alfworld.grammar_texts import GRAMMARS
from agent_envs.envs.alfworld.oracle import OracleError
from agent_envs.envs.alfworld.tasksets import GENERATED_SPLITS, choose_sentence, open_tasks
from agent_envs.errors import unknown_name
from agent_envs.spaces import FreeText

BACKENDS = ("native", "textworld")
GOAL_TEXTS = ("template", "human")

_TASK_INTRO = "Your task is to: "
_MAX_ACTION_LENGTH = 4096
_MAX_OBSERVATION_LENGTH = 1 << 16
# The command that puts an object down, as the other text release spells it.
_FOREIGN_PLACE = {
    "0.4": re.compile(r"put .+ \d+ (?:in/on|in|on) .+ \d+"),
    "0.3": re.compile(r"move .+ \d+ to .+ \d+"),
}
_warned_of_grammar = False


class ALFWorldEnv(AgentEnv):
    """Reach a household goal, such as a hot apple on the dining table, with text commands.

    ## Description
    The agent is in a room with receptacles (cabinets, a fridge, a desk ...) and objects, of which it sees only those
    at its place. It must find the right object, often treat it, and put it where the task says. There are six task
    types, named in `info["task_type"]`:

    | type | goal |
    |---|---|
    | `pick_and_place_simple` | an object in or on a receptacle |
    | `look_at_obj_in_light` | hold the object where a lamp is that has been switched on |
    | `pick_clean_then_place_in_recep` | clean it at a sink basin, then place it |
    | `pick_heat_then_place_in_recep` | heat it with the microwave, then place it |
    | `pick_cool_then_place_in_recep` | cool it with the fridge, then place it |
    | `pick_two_obj_and_place` | two objects of one class in one receptacle |

    Texts, possible commands and results are those of textworld 1.7.0 with alfworld 0.4.2, byte for byte.

    ## Action
    | command | possible | effect |
    |---|---|---|
    | `go to {r}` | receptacle elsewhere | the agent is at the place of r |
    | `open {r}`, `close {r}` | at r | |
    | `take {o} from {r}` | at r, r open, hands empty | holds o |
    | `move {o} to {r}` | at r, r open, o fits | o is in or on r |
    | `clean {o} with {r}`, `heat ...`, `cool ...` | at sink basin, microwave, fridge, holds o | o is clean, hot, cool |
    | `use {o}` | at the lamp | the lamp is on |
    | `slice {o} with {k}` | holds knife k, at o | o is sliced |
    | `examine {r or o}`, `look`, `inventory`, `help` | | text only |

    The text is lower-cased, inner blanks are made single, quotes around it and one final full stop are removed. It
    must then equal a possible command. Anything else is answered with `Nothing happens.`, uses a turn and changes
    nothing; `info["refusal"]` says why: `empty`, `other_grammar` (the command of the other text release, see
    Arguments), `not_admissible`.

    `info["admissible_actions"]` is always there: all possible commands in the official order, without `help`, which is
    accepted all the same. Several receptacles may share a place; `go to` is then not possible between them.

    ## Observation
    Text. The first one names all receptacles and the task; later ones are the engine's answer to the command.
    `info["grammar_version"]` is `"0.4"` or `"0.3"`. `render()` gives the text (`render_mode="ansi"`).

    ## Reward
    `success_reward` (10) in the turn that reaches the goal, else 0. `score` is 1 when the goal is reached, else 0.

    ## Episode end
    `terminated` when the goal holds (`success`, judged by the engine, never from text), `truncated` after `max_turns`
    turns.

    ## Canonical state
    `{"gained": facts, "lost": facts, "won": bool}`: how the facts that commands can change differ from the start of
    the task. These are the places of agent and objects, what is held, and what is opened, clean, hot, cool, sliced or
    switched on. Looking, examining and refused commands leave it as it is. One thing is not in it: whether an object
    moved between two receptacles of one shared place is mentioned by `look`; snapshots hold that too.
    `state_key="observation"` groups by the engine's answer instead, as the GiGPO paper does.

    ## Tasks and splits
    | split | generated games | rooms |
    |---|---|---|
    | `train` | 3,553, seeds from 0 | 24 of each kind |
    | `valid_seen` | 140, seeds from 10,000 | those of `train` |
    | `valid_unseen`, alias `test` | 134, seeds from 20,000 | 6 others of each kind |

    Games are generated when they are first played, in about a millisecond, and are the same on every machine. Kitchens,
    living rooms, bedrooms and bathrooms hold ALFWorld's classes of receptacles and objects. Sizes of the splits and
    numbers of each task type are the official ones. `size="full"` has rooms of 8-42 receptacles, `size="small"` of
    8-12. Ids are `alfworld/<split>/<type>-<object>-None-<receptacle or lamp>-<scene>/trial_<size>_<seed>`.

    `data_dir` plays the official games instead; `agent-envs data alfworld --download` fetches them. The folder holds
    `json_2.1.1` or similar, or split folders, or the task folders of a single split. ALFWorld's selection rule gives
    the official 3,553, 140 and 134 games; a full copy with other numbers is refused, and the files at fault are named.
    Ids are `alfworld/<split>/<folder>`, sorted by folder. Nothing is written into the folder.

    `example_actions()` is a plan that wins from the current state, made by an oracle that knows where everything is;
    empty if the episode is won or no plain plan wins.

    ## Arguments
    - `max_turns` (50): turns until truncation.
    - `size` ("full"): size of the generated rooms, `"full"` or `"small"`.
    - `data_dir` (None): folder of official games, or `"generated"`. None takes the folder in the environment variable
      `ALFWORLD_DATA` if it is set and `size` is `"full"`, else generated games.
    - `backend` ("native"): `"textworld"` plays on the official engine (extra `alfworld`), with the same texts and keys
      but some 200 times slower. It is not thread-safe: groups run in worker processes unless told otherwise, with 60 s
      for a reset, and `executor="threads"` is refused. Its snapshots replay the commands.
    - `grammar` ("0.4"): `"0.3"` speaks as the releases before 0.4 do: `put {o} in/on {r}`, `You arrive at loc 12.`, no
      `help`.
    - `put_alias` (False): accept `move X to Y`, `put X in/on Y`, `put X in Y` and `put X on Y` alike.
    - `goal_text` ("template"): `"human"` gives the task in a person's words, fixed per task; official games only.
    - `success_reward` (10.0): see Reward.
    - `split` ("train"), `state_key` ("canonical"), `render_mode` (None): as in every environment.

    ## Version history
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    STATE_VERSION: ClassVar[int] = 0
    SPLITS: ClassVar[dict[str, int | str]] = dict(GENERATED_SPLITS)
    SUPPORTS_SNAPSHOT: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_turns: int = 50,
        size: str = "full",
        data_dir: str | None = None,
        backend: str = "native",
        grammar: str = "0.4",
        put_alias: bool = False,
        goal_text: str = "template",
        success_reward: float = 10.0,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        for name, value, known in (
            ("backend", backend, BACKENDS),
            ("grammar", grammar, GRAMMARS),
            ("goal_text", goal_text, GOAL_TEXTS),
        ):
            if value not in known:
                raise unknown_name(name, value, known)
        self._engine_class = _textworld_engine() if backend == "textworld" else None
        self._tasks = open_tasks(size, data_dir)
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self.backend, self.grammar, self.put_alias, self.goal_text = backend, grammar, put_alias, goal_text
        if self._engine_class is not None:
            self.no_threads = "backend='textworld' plays one game at a time in a process."
        self.success_reward = float(success_reward)
        self._engine: Engine | None = None
        self._text, self._task_type = "", ""
        self.observation_space = FreeText(_MAX_OBSERVATION_LENGTH)
        self.action_space = FreeText(_MAX_ACTION_LENGTH)

    @classmethod
    def group_defaults(cls, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the serial executor, or for the official engine worker processes and a limit of 60 s for a reset."""
        if kwargs.get("backend") == "textworld":
            return {"executor": "processes", "reset_timeout_s": 60.0}
        return super().group_defaults(kwargs)

    # ------------------------------------------------------------------ tasks

    def splits(self) -> Mapping[str, int | str]:
        """Return split names with their sizes, and aliases with their targets."""
        return self._tasks.splits

    def task_name(self, split: str, index: int) -> str:
        """Return the game's folder, relative to its split."""
        return self._tasks.name(split, index)

    def task_source(self, split: str) -> Any:
        """Return what determines the games of a split, and the texts they are told in."""
        told = {"grammar": self.grammar, "goal_text": self.goal_text}
        return {"name": self.name(), "split": split, **told, **self._tasks.describe(split)}

    def _reset_task(self, split: str, index: int) -> None:
        source = self._tasks.source(split, index)
        self._task_type = self._tasks.task_type(split, index)
        self._engine = self._make_engine(source)
        text = self._engine.reset().strip()
        scene, intro, sentence = text.rpartition(_TASK_INTRO)
        self.task = sentence.removesuffix(".")
        if self.goal_text == "human":
            sentences = self._tasks.sentences(split, index)
            if not sentences:
                raise ValueError("goal_text='human' needs official games, pass data_dir= or use goal_text='template'.")
            self.task = choose_sentence(sentences, self._task_id)
            text = f"{scene}{intro}{self.task}."
        self._show(text)

    def _make_engine(self, source: Path | bytes) -> Engine:
        if self._engine_class is None:
            return Engine(load_game(source, self.grammar), put_alias=self.put_alias)
        if self._engine is not None:
            self.close()
        # The official engine has the interface of ours; it takes the file, not the parsed game.
        return cast(Engine, self._engine_class(source, grammar=self.grammar, put_alias=self.put_alias))

    def _running(self) -> Engine:
        if self._engine is None:
            raise ResetNeeded("Call reset() before asking for the state of the game.")
        return self._engine

    def _show(self, text: str) -> None:
        self._text = text
        self.success = self._running().won
        self.score = float(self.success)

    # ------------------------------------------------------------------ play

    def _act(self, action: str) -> tuple[float, bool, bool]:
        command = tidy_command(action)
        result = self._running().step(command)
        if not result.admitted:
            self.refusal = self._why_refused(command)
        self._show(result.feedback.strip())
        return (self.success_reward if self.success else 0.0), self.success, result.admitted

    def _why_refused(self, command: str) -> str:
        if not command:
            return "empty"
        if self.put_alias or not _FOREIGN_PLACE[self.grammar].fullmatch(command):
            return "not_admissible"
        global _warned_of_grammar
        if not _warned_of_grammar:
            _warned_of_grammar = True
            other = next(version for version in GRAMMARS if version != self.grammar)
            warnings.warn(
                f"The command {command[:80]!r} is refused: this environment speaks grammar {self.grammar}, where "
                f"objects are put down with {GRAMMARS[self.grammar].place_command % ('X', 'Y')!r}. Prompts made for "
                f"the other releases need put_alias=True, or grammar={other!r}. This is said once.",
                UserWarning,
                stacklevel=4,
            )
        return "other_grammar"

    def _observe(self) -> str:
        return self._text

    def _extra_info(self) -> dict[str, Any]:
        commands = self._running().admissible()
        if "help" in commands:
            commands.remove("help")
        return {
            "admissible_actions": commands,
            "grammar_version": self.grammar,
            "task_type": self._task_type,
        }

    def canonical_state(self) -> Any:
        """Return the facts gained and lost since the start, and whether the goal holds."""
        engine = self._running()
        return {**engine.changes(), "won": engine.won}

    def example_actions(self) -> list[str]:
        """Return a plan that wins from the current state; empty if it is won or no plain plan wins."""
        try:
            return self._running().oracle()
        except OracleError:
            return []

    def render(self) -> str | None:
        """Return the current text, or None without a render mode."""
        self._running()
        return self._text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Free what the engine holds."""
        close = getattr(self._engine, "close", None)
        if close is not None:
            close()
        self._engine = None

    # ------------------------------------------------------------------ snapshots

    def _save_state(self) -> Any:
        return {"engine": self._running().snapshot(), "text": self._text}

    def _load_state(self, state: Any) -> None:
        text = state["text"]
        if not isinstance(text, str):
            raise TypeError(f"the observation must be a str, got {type(text).__name__}")
        self._running().restore(state["engine"])
        self._show(text)


def _textworld_engine() -> Any:
    """Return the class that plays on the official engine; imported here, for it needs an extra."""
    return importlib.import_module("agent_envs.envs.alfworld.textworld_backend").TextworldEngine
