"""Toy environments of the tests. A module of its own, so that spawned workers can import them."""

import os
import signal
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agent_envs import AgentEnv, FreeText, Status, register_env


class ServiceGone(Exception):
    status = Status.ERROR_SERVICE


class ToyShopEnv(AgentEnv):
    """Text in, text out: open pages of a small shop and buy the asked item. Some words make it fail on purpose."""

    ITEMS = ("café cup", "blue mug", "naïve print", "red lamp", "green pot")
    SPLITS = {"train": 5, "test": 3, "valid": "test"}
    SUPPORTS_SNAPSHOT = True

    def __init__(self, *, max_turns=15, split="train", state_key="canonical", render_mode=None, fail_resets=()):
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self.observation_space, self.action_space = FreeText(4096), FreeText(256)
        self._fail_resets = tuple(fail_resets)

    def _reset_task(self, split, index):
        if index in self._fail_resets:
            raise RuntimeError(f"no shop {index}")
        self._goal, self._page = index, -1
        self.task = f"buy {self.ITEMS[index]}"
        self._luck = float(self.np_random.random())

    def _act(self, action):
        if action.startswith("fault "):
            return self._fault(action[6:])
        if action.startswith("open ") and action[5:].isdecimal() and int(action[5:]) < len(self.ITEMS):
            self._page = int(action[5:])
            return 0.0, False, True
        if action == "back" and self._page >= 0:
            self._page = -1
            return 0.0, False, True
        if action == "draw":
            return float(self.np_random.random()), False, True
        if action == "buy" and self._page >= 0:
            self.success = self._page == self._goal
            self.score = float(self.success)
            return (10.0 if self.success else 0.0), True, True
        self.refusal = "unknown_action"
        return 0.0, False, False

    def _fault(self, kind):
        if kind == "raise":
            raise RuntimeError("boom")
        if kind == "service":
            raise ServiceGone("503")
        if kind == "connection":
            raise ConnectionRefusedError("port closed")
        if kind == "quit":
            raise SystemExit(3)
        if kind == "interrupt":
            raise KeyboardInterrupt
        if kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind in ("nan", "inf"):
            return float(kind), False, True
        if kind.startswith("sleep "):
            time.sleep(float(kind[6:]))
        return 0.0, False, True

    def _observe(self):
        page = "results" if self._page < 0 else self.ITEMS[self._page]
        return f"Page: {page}"

    def canonical_state(self):
        return {"page": self._page}

    def example_actions(self):
        return [f"open {self._goal}", "buy"]

    def _extra_info(self):
        return {"admissible_actions": ["buy", "back"] if self._page >= 0 else ["open 0"], "luck": self._luck}

    def _save_state(self):
        return {"page": self._page, "luck": self._luck}

    def _load_state(self, state):
        self._page, self._luck = int(state["page"]), float(state["luck"])


class ToyGridEnv(AgentEnv):
    """Image in, text out: walk a green tile to the red one."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
    MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
    SPLITS = {"train": 9, "test": "train"}

    def __init__(self, *, size=4, max_turns=15, split="train", state_key="canonical", render_mode=None):
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self._size = size
        image = spaces.Box(0, 255, (size * 4, size * 4, 3), np.uint8)
        self.observation_space = spaces.Dict({"image": image, "text": FreeText(256)})
        self.action_space = FreeText(64)

    def _reset_task(self, split, index):
        self._goal, self._pos = (index // 3 + 1, index % 3 + 1), (0, 0)
        self.task = "reach the red tile"

    def _act(self, action):
        move = self.MOVES.get(action)
        if move is None:
            self.refusal = "unknown_action"
            return 0.0, False, False
        row, column = self._pos[0] + move[0], self._pos[1] + move[1]
        if 0 <= row < self._size and 0 <= column < self._size:
            self._pos = (row, column)
        self.success = self._pos == self._goal
        return (1.0 if self.success else 0.0), self.success, True

    def render(self):
        image = np.zeros((self._size * 4, self._size * 4, 3), np.uint8)
        for (row, column), colour in ((self._goal, (255, 0, 0)), (self._pos, (0, 255, 0))):
            image[row * 4 : row * 4 + 4, column * 4 : column * 4 + 4] = colour
        return image

    def _observe(self):
        return {"image": self.render(), "text": "Reach the red tile."}

    def canonical_state(self):
        return list(self._pos)

    def example_actions(self):
        return ["down"] * (self._goal[0] - self._pos[0]) + ["right"] * (self._goal[1] - self._pos[1])


class UnseededEnv(ToyShopEnv):
    """Breaks the contract: each instance starts on another page."""

    count = 0

    def _reset_task(self, split, index):
        super()._reset_task(split, index)
        type(self).count += 1
        self._page = type(self).count % len(self.ITEMS)


class OwnTaskTableEnv(ToyShopEnv):
    """Breaks the contract: each instance names its tasks in its own way, with equal states."""

    count = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        type(self).count += 1
        self._number = type(self).count

    def task_name(self, split, index):
        return f"{index}-{self._number}"


class MixedInfoEnv(ToyShopEnv):
    """Breaks the contract: an info key that is an int until it is a float."""

    def _extra_info(self):
        return {"progress": 0 if self._page < 0 else 0.5}


class UnpicklableInfoEnv(ToyShopEnv):
    """Breaks the contract: its info holds a function from the first "open 1" on, in later episodes too."""

    _callback = None

    def _act(self, action):
        if action == "open 1":
            self._callback = lambda: None
        return super()._act(action)

    def _extra_info(self):
        return {"callback": self._callback}


class BrokenBuildEnv(ToyShopEnv):
    def __init__(self, **kwargs):
        raise FileNotFoundError("no data at /nowhere, run make-data")


def shop(**kwargs):
    return ToyShopEnv(**kwargs)


def not_an_agent_env():
    return gym.Env()


def register():
    register_env("toys/Shop-v0", "toy_envs:ToyShopEnv", max_turns=15)
    register_env("toys/Grid-v0", "toy_envs:ToyGridEnv", max_turns=15)
