"""The Sokoban environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from agent_envs.core import AgentEnv
from agent_envs.envs.sokoban.generate import GENERATOR_VERSION, LevelParams, generate_level
from agent_envs.envs.sokoban.levels import LevelSet, load_level_sets, with_aliases
from agent_envs.envs.sokoban.render import GRID_STYLES, frame, grid_text
from agent_envs.envs.sokoban.rules import (
    BOX_ON_TARGET,
    PLAYER,
    PLAYER_ON_TARGET,
    WORDS,
    Level,
    digit_rows,
    find_player,
    fixed_layout,
    from_digit_rows,
    move,
)
from agent_envs.envs.sokoban.solver import solve
from agent_envs.errors import unknown_name
from agent_envs.spaces import FreeText

STILL = "still"
OBS_MODES = ("text", "image", "image_text")
REWARD_MODES = ("dense", "success")
IMAGE_SENTENCE = "The board is shown in the image."

_FIRST_SEED = {"train": 0, "test": 1_000_000}
_DIRECTIONS = {word: direction for direction, word in enumerate(WORDS)}
_BLANKS_AND_QUOTES = " \t\r\n\f\v\xa0\"'`\u2018\u2019\u201c\u201d"
_MAX_ACTION_LENGTH = 4096


def parse_word(text: str, words: Iterable[str], *, lenient: bool = False) -> tuple[str, str]:
    """Return ``(word, "")`` for the action word in a text, or ``("", code)`` for a refused text.

    Lower-cased and stripped of blanks, quotes and a final full stop, the text must equal a word. Otherwise whole words
    are searched for: several different ones are refused as ``ambiguous``, a single one is accepted if ``lenient``, and
    all else is an ``unknown_action``.

    Args:
        text: What the agent wrote.
        words: The action words.
        lenient: Accept a sentence with exactly one distinct action word.
    """
    plain = text.lower().strip(_BLANKS_AND_QUOTES).removesuffix(".").strip(_BLANKS_AND_QUOTES)
    known = tuple(words)
    if plain in known:
        return plain, ""
    found = set(re.findall(rf"\b(?:{'|'.join(known)})\b", plain))
    if len(found) > 1:
        return "", "ambiguous"
    if lenient and found:
        return found.pop(), ""
    return "", "unknown_action"


class SokobanEnv(AgentEnv):
    """Push every box onto a target on a walled grid.

    ## Description
    The player walks on a grid and pushes boxes. A box cannot be pulled, and a box in a corner is stuck, so the order
    of pushes must be planned. Levels are generated from a seed and are solvable by construction, or they come from
    files in the Boxoban format.

    ## Action
    One of the words `up`, `down`, `left`, `right` (ids 1-4), and `still` (id 0) if `allow_still=True`. The player moves
    to the next cell if it is floor or a target. If it holds a box and the cell behind the box is floor or a target, the
    player pushes the box. Otherwise nothing moves: a blocked move is a valid action with `info["moved"]` False.

    The text is lower-cased, stripped of blanks, quotes and one final full stop, and must then equal a word. Other texts
    are refused, `info["refusal"]` says why, and the board stays as it is:

    | text | `lenient=False` (default) | `lenient=True` |
    |---|---|---|
    | `Right`, `"right".` | `right` | `right` |
    | `go right` | `unknown_action` | `right` |
    | `go right, not up`, `Left then down` | `ambiguous` | `ambiguous` |
    | `upright`, `update`, empty text | `unknown_action` | `unknown_action` |

    `info["admissible_actions"]` is always there: all words, in the order up, down, left, right, still.

    ## Observation
    - `obs_mode="text"` (default): the board, one line per row. `grid_style="spaced"` writes each cell as blank, symbol,
      blank, tab; `"compact"` writes symbols only. Symbols: `#` wall, `_` floor, `O` target, `√` box on target, `X` box,
      `P` player, `S` player on target.
    - `obs_mode="image"`: a dict of `image`, an RGB frame `(rows * tile, columns * tile, 3) uint8`, and `text`, one
      fixed sentence.
    - `obs_mode="image_text"`: the same dict with the board as `text`.

    Info holds `moved` (the player changed its cell in this turn, False after reset) and `boxes_on_target` (int).
    `render()` gives the frame (`render_mode="rgb_array"`) or the text (`"ansi"`). `room_state` and `room_fixed` are the
    board and its empty layout as `(rows, columns) int8` arrays.

    ## Reward
    `reward_mode="dense"` (default): -0.1 for every turn, a refused action included; +1 when the number of boxes on
    targets rises, -1 when it falls; +10 when all boxes are on targets. The last push of a solution gives 10.9.
    `reward_mode="success"`: 10 for the solving turn, else 0. `score` is the share of boxes on targets.

    ## Episode end
    `terminated` when all boxes are on targets (`success`), `truncated` after `max_turns` turns. A refused action uses a
    turn. A stuck box does not end the episode.

    ## Canonical state
    `{"room": rows}`, one string of digits per row: 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 player,
    6 player on target. Turn and rewards are not in it. Text and image modes give equal keys.

    ## Tasks and splits
    Generated levels: `train` has seeds 0-999,999 and `test` (alias `validation`) seeds 1,000,000-1,000,255; the task
    index is the offset from the split's first seed. Ids are
    `sokoban/<split>/<rows>x<columns>-b<boxes>-d<depth>-<seed>`, followed by `-w<moves>` under
    `require_solvable_within`. A level depends on its seed, `dim_room`, `num_boxes`, `search_depth` and
    `require_solvable_within` only.

    `level_dir` reads Boxoban files instead: every sub-folder with `*.txt` files is a split of that name, and so is
    every `*.txt` file in the folder itself. Where `train` is missing it stands for the first split with "train" in its
    name, else the first; `test` for the first with "test", else "valid" in its name, else the last. Ids are
    `sokoban/<split>/<file>-<position>`, positions from 0.

    `example_actions()` is a shortest solution from the current board, empty if the board is solved, has no solution, or
    the search exceeds 200,000 positions.

    ## Arguments
    - `max_turns` (15): turns until truncation.
    - `dim_room` ([6, 6]): rows and columns, border walls included, at least 5 each.
    - `num_boxes` (1): boxes, and as many targets.
    - `search_depth` (300): depth limit of the generator in moves; the GiGPO paper uses 30.
    - `require_solvable_within` (None): largest length in moves of a shortest solution. A seed whose level is longer
      gets another one.
    - `level_dir` (None): folder of level files. The four arguments above then keep their defaults.
    - `obs_mode` ("text"), `grid_style` ("spaced"), `tile` (16, pixels, 4-64): see Observation.
    - `reward_mode` ("dense"): see Reward.
    - `allow_still` (False), `lenient` (False): see Action.
    - `split` ("train"), `state_key` ("canonical"), `render_mode` (None): as in every environment.

    ## Version history
    - v0: first version. Moves and rewards are those of gym-sokoban 0.0.6; the turn limit truncates instead of
      terminating.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}
    STATE_VERSION: ClassVar[int] = 0
    SPLITS: ClassVar[dict[str, int | str]] = {"train": 1_000_000, "test": 256, "validation": "test"}
    SUPPORTS_SNAPSHOT: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_turns: int = 15,
        dim_room: Sequence[int] = (6, 6),
        num_boxes: int = 1,
        search_depth: int = 300,
        require_solvable_within: int | None = None,
        level_dir: str | None = None,
        obs_mode: str = "text",
        grid_style: str = "spaced",
        tile: int = 16,
        reward_mode: str = "dense",
        allow_still: bool = False,
        lenient: bool = False,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        _check_choices(obs_mode=(obs_mode, OBS_MODES), grid_style=(grid_style, GRID_STYLES))
        _check_choices(reward_mode=(reward_mode, REWARD_MODES))
        if isinstance(tile, bool) or not isinstance(tile, int) or not 4 <= tile <= 64:
            raise ValueError(f"tile must be an int in [4, 64] (pixels), got {tile!r}.")
        self._params = _level_params(dim_room, num_boxes, search_depth, require_solvable_within)
        self._level_sets: Mapping[str, LevelSet] | None = None
        self._splits: Mapping[str, int | str] = self.SPLITS
        if level_dir is not None:
            if self._params != _level_params((6, 6), 1, 300, None):
                raise ValueError(
                    "With level_dir the levels come from files: leave out dim_room, num_boxes, search_depth and "
                    f"require_solvable_within, got {self._params}."
                )
            self._level_sets = load_level_sets(level_dir)
            self._splits = with_aliases({name: len(levels.levels) for name, levels in self._level_sets.items()})
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self.obs_mode, self.grid_style, self.tile = obs_mode, grid_style, tile
        self.reward_mode, self.lenient = reward_mode, lenient
        self._words = (*WORDS, STILL) if allow_still else WORDS
        self._level = Level(b"", 1)
        self._room, self._width, self._player = b"", 1, 0
        self._num_boxes = self._boxes_on_target = 0
        self._moved = False
        self.observation_space = self._make_observation_space()
        self.action_space = FreeText(_MAX_ACTION_LENGTH)

    def _make_observation_space(self) -> spaces.Space[Any]:
        if self._level_sets is None:
            sizes = {(self._params.height, self._params.width)}
        else:
            levels = (level for level_set in self._level_sets.values() for level in level_set.levels)
            sizes = {(level.height, level.width) for level in levels}
        # The spaced style needs 4 characters a cell; each row but the last ends with a newline.
        text = FreeText(max(4 * height * width + height - 1 for height, width in sizes))
        if self.obs_mode == "text":
            return text
        if len(sizes) > 1:
            raise ValueError(
                f"obs_mode={self.obs_mode!r} needs levels of one size, level_dir holds {sorted(sizes)}. "
                "Use obs_mode='text', or move the levels into folders by size."
            )
        ((height, width),) = sizes
        shape = (height * self.tile, width * self.tile, 3)
        return spaces.Dict({"image": spaces.Box(0, 255, shape, np.uint8), "text": text})

    # ------------------------------------------------------------------ tasks

    def splits(self) -> Mapping[str, int | str]:
        """Return split names with their sizes, and aliases with their targets."""
        return self._splits

    def task_name(self, split: str, index: int) -> str:
        """Return the level's id: size, boxes, depth and seed, or file and position."""
        if self._level_sets is not None:
            return self._level_sets[split].level_name(index)
        params = self._params
        limit = "" if params.solvable_within is None else f"-w{params.solvable_within}"
        seed = _FIRST_SEED[split] + index
        return f"{params.height}x{params.width}-b{params.num_boxes}-d{params.search_depth}-{seed}{limit}"

    def task_source(self, split: str) -> Any:
        """Return what determines the levels of a split: generator and parameters, or the digest of the files."""
        if self._level_sets is not None:
            return {"name": self.name(), "split": split, "levels": self._level_sets[split].digest}
        params = self._params
        return {
            "name": self.name(),
            "split": split,
            "size": self.num_tasks(split),
            "first_seed": _FIRST_SEED[split],
            "generator_version": GENERATOR_VERSION,
            "dim_room": [params.height, params.width],
            "num_boxes": params.num_boxes,
            "search_depth": params.search_depth,
            "require_solvable_within": params.solvable_within,
        }

    def _reset_task(self, split: str, index: int) -> None:
        if self._level_sets is not None:
            self._level = self._level_sets[split].levels[index]
        else:
            self._level = generate_level(self._params, _FIRST_SEED[split] + index)
        self._width, self._num_boxes = self._level.width, self._level.num_boxes
        self.task = (
            "Push every box onto a target. You push a box by walking into it, and you cannot pull. "
            f"Each turn answer with one word: {', '.join(self._words[:-1])} or {self._words[-1]}."
        )
        self._put(self._level.room, find_player(self._level.room), moved=False)

    def _put(self, room: bytes, player: int, *, moved: bool) -> None:
        self._room, self._player, self._moved = room, player, moved
        self._boxes_on_target = room.count(BOX_ON_TARGET)
        self.score = self._boxes_on_target / self._num_boxes
        self.success = self._boxes_on_target == self._num_boxes

    # ------------------------------------------------------------------ play

    def _act(self, action: str) -> tuple[float, bool, bool]:
        word, self.refusal = parse_word(action, self._words, lenient=self.lenient)
        change = 0
        self._moved = False
        if word in _DIRECTIONS:
            outcome = move(self._room, self._width, self._player, _DIRECTIONS[word])
            change = outcome.change
            self._put(outcome.room, outcome.player, moved=outcome.moved)
        if self.reward_mode == "success":
            reward = 10.0 if self.success else 0.0
        else:
            reward = -0.1 + change + (10.0 if self.success else 0.0)
        return reward, self.success, not self.refusal

    def _observe(self) -> Any:
        if self.obs_mode == "text":
            return grid_text(self._room, self._width, self.grid_style)
        text = IMAGE_SENTENCE
        if self.obs_mode == "image_text":
            text = grid_text(self._room, self._width, self.grid_style)
        return {"image": frame(self._room, self._width, self.tile), "text": text}

    def _extra_info(self) -> dict[str, Any]:
        return {
            "moved": self._moved,
            "boxes_on_target": self._boxes_on_target,
            "admissible_actions": list(self._words),
        }

    def canonical_state(self) -> Any:
        """Return the board as rows of digits, 6 for a player on a target."""
        return {"room": digit_rows(self._room, self._width)}

    def example_actions(self) -> list[str]:
        """Return a shortest solution from the current board; empty if there is none within the search limit."""
        return [WORDS[direction] for direction in solve(self._room, self._width) or []]

    def render(self) -> Any:
        """Return the board as ``render_mode`` says: a frame, a text, or None without a mode."""
        if not self._room:
            raise ResetNeeded("Call reset() before render().")
        if self.render_mode == "rgb_array":
            return frame(self._room, self._width, self.tile)
        if self.render_mode == "ansi":
            return grid_text(self._room, self._width, self.grid_style)
        return None

    # ------------------------------------------------------------------ board arrays and snapshots

    @property
    def room_state(self) -> npt.NDArray[np.int8]:
        """The board, ``(rows, columns) int8`` of codes 0-5; a player on a target is 5 too. A new array."""
        room = self._room.replace(bytes((PLAYER_ON_TARGET,)), bytes((PLAYER,)))
        return np.frombuffer(room, np.int8).reshape(-1, self._width).copy()

    @property
    def room_fixed(self) -> npt.NDArray[np.int8]:
        """The layout without boxes and player, ``(rows, columns) int8`` of codes 0-2. A new array."""
        return np.frombuffer(fixed_layout(self._room), np.int8).reshape(-1, self._width).copy()

    def _save_state(self) -> Any:
        return {"room": digit_rows(self._room, self._width), "moved": self._moved}

    def _load_state(self, state: Any) -> None:
        room = from_digit_rows(state["room"])
        same_boxes = Level(room, self._width).num_boxes == self._num_boxes
        one_player = room.count(PLAYER) + room.count(PLAYER_ON_TARGET) == 1
        if fixed_layout(room) != fixed_layout(self._level.room) or not same_boxes or not one_player:
            raise ValueError(f"the board {state['room']} is not one of task {self._task_id}")
        self._put(room, find_player(room), moved=bool(state["moved"]))


def _check_choices(**choices: tuple[str, tuple[str, ...]]) -> None:
    for name, (value, known) in choices.items():
        if value not in known:
            raise unknown_name(name, value, known)


def _level_params(
    dim_room: Sequence[int], num_boxes: int, search_depth: int, require_solvable_within: int | None
) -> LevelParams:
    if not isinstance(dim_room, (list, tuple)) or len(dim_room) != 2:
        raise ValueError(f"dim_room must be [rows, columns], got {dim_room!r}. For example dim_room=[6, 6].")
    return LevelParams(
        height=dim_room[0],
        width=dim_room[1],
        num_boxes=num_boxes,
        search_depth=search_depth,
        solvable_within=require_solvable_within,
    )
