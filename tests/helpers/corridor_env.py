"""A small environment for trainer tests: walk to the goal; "boom" is a broken engine."""

from __future__ import annotations

from typing import Any

from agent_envs import AgentEnv, FreeText, register_env

ENV_ID = "corridors/Corridor-v0"


class CorridorEnv(AgentEnv):
    SPLITS = {"train": 50, "test": 10}

    def __init__(self, *, max_turns: int = 6, **base: Any) -> None:
        super().__init__(max_turns=max_turns, **base)
        self.observation_space, self.action_space = FreeText(200), FreeText(200)

    def _reset_task(self, split: str, index: int) -> None:
        self.goal, self.place, self.task = 2 + index % 2, 0, "go to the goal"

    def _act(self, action: str) -> tuple[float, bool, bool]:
        if action == "boom":
            raise RuntimeError("engine is gone")
        if action not in ("left", "right"):
            return 0.0, False, False
        self.place = max(0, self.place + (1 if action == "right" else -1))
        self.success = self.place == self.goal
        return float(self.success), self.success, True

    def _observe(self) -> str:
        return f"at {self.place}, goal {self.goal}"

    def canonical_state(self) -> Any:
        return {"place": self.place, "goal": self.goal}

    def example_actions(self) -> list[str]:
        return ["right"] * (self.goal - self.place)


def register() -> None:
    register_env(ENV_ID, "corridor_env:CorridorEnv", max_turns=6)
