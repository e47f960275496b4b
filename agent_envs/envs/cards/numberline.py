"""NumberLine: walk from one number to another."""

from __future__ import annotations

from typing import Any

from agent_envs.envs.cards.actions import NUMBERLINE
from agent_envs.envs.cards.draw import Frame, numberline_frame
from agent_envs.envs.cards.game import REWARD_MODES, CardGameEnv, Dice, one_of

_MAX_POSITION = 5


class NumberLineEnv(CardGameEnv):
    """Walk along the numbers 0 to 5 to the target.

    ## Description
    The frame shows two numbers, the target and the current position. The rules are those of NumberLine in gym-cards
    (RL4VLM), written anew, with own drawings.

    ## Action
    `-` or `left` (id 0 in the original): one less, not below 0. `+` or `right` (id 1): one more, not above 5. Any
    other text is refused (`unknown_action`, `action_multiple`), uses a turn and leaves the state as it is.
    `info["admissible_actions"]` is `["-", "+"]` until the end.

    ## Observation
    `obs_mode="image"` (default): `{"image": (300, 300, 3) uint8, "text": one fixed sentence}`; `"image_text"` is the
    same. `"text"`: `"Target: 3. Current: 1."`, with a second line after a refusal.

    ## Reward
    `reward_mode="original"` (default of both rule sets): 1 at the target, -1 for a move that does not bring it
    nearer, else 0. `"success"`: 10 at the target, else 0.

    ## Episode end
    Reaching the target terminates, turn `max_turns` truncates.

    ## Canonical state
    `{"goal": n, "pos": n}`.

    ## Tasks and splits
    A task is a seed: `train` has 0 to 999,999, `test` 1,000,000 to 1,000,255; `task_id` is
    `numberline/<split>/<seed>`. Start and target are uniform in 0 to 5; a target equal to the start becomes
    `(target + 1) % 5`, as in the original.

    ## Arguments
    - `obs_mode`: `"image"`, `"image_text"` or `"text"`.
    - `rules`: `"agent"` or `"official"`; equal in this game.
    - `reward_mode`: `"original"` or `"success"`.
    - `deal`: start and target such as `[1, 3]` of every task, for tests and replays.
    - `max_turns`: 10, the limit of the original.
    - `split`, `state_key`, `render_mode` (`"rgb_array"`): as in every environment.

    ## Version history
    - v0: first version.
    """

    SENTENCE = "The picture shows the target number and the current number."
    vocabulary = NUMBERLINE

    def __init__(
        self,
        *,
        max_turns: int = 10,
        obs_mode: str = "image",
        rules: str = "agent",
        reward_mode: str = "original",
        deal: list[int] | None = None,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            max_turns=max_turns,
            obs_mode=obs_mode,
            rules=rules,
            split=split,
            state_key=state_key,
            render_mode=render_mode,
        )
        self.reward_mode = one_of("reward_mode", reward_mode, REWARD_MODES)
        self.deal = None if deal is None else _read_deal(deal)
        self._goal = self._position = 0

    def _deal(self, seed: int) -> None:
        dice = Dice(seed, "numberline")
        start, goal = self.deal or (dice.roll(_MAX_POSITION + 1), dice.roll(_MAX_POSITION + 1))
        self._position = start
        self._goal = (goal + 1) % _MAX_POSITION if goal == start else goal  # modulo 5: 5 is never such a target

    def _act(self, action: str) -> tuple[float, bool, bool]:
        symbol = self._read(action)
        if not symbol:
            return 0.0, False, False
        before = abs(self._goal - self._position)
        move = 1 if symbol == "+" else -1
        self._position = min(max(self._position + move, 0), _MAX_POSITION)
        if self._position == self._goal:
            self._win()
            return 10.0 if self.reward_mode == "success" else 1.0, True, True
        nearer = abs(self._goal - self._position) < before
        return 0.0 if nearer or self.reward_mode == "success" else -1.0, False, True

    def canonical_state(self) -> Any:
        """Return target and position; the game has ended when they are equal."""
        return {"goal": self._goal, "pos": self._position}

    def example_actions(self) -> list[str]:
        """Return the moves toward the target."""
        distance = self._goal - self._position
        return [] if self._over() else ["+" if distance > 0 else "-"] * abs(distance)

    def _describe(self) -> str:
        return f"Target: {self._goal}. Current: {self._position}."

    def _frame(self) -> Frame:
        return numberline_frame(self._goal, self._position)

    def _instruction(self) -> str:
        return "Move the current number to the target number: + adds 1, - takes 1 away."

    def _options(self) -> dict[str, Any]:
        return {"reward_mode": self.reward_mode, "deal": self.deal}

    def _save_state(self) -> Any:
        return {"pos": self._position}

    def _load_state(self, state: Any) -> None:
        position = state["pos"]
        if not isinstance(position, int) or not 0 <= position <= _MAX_POSITION:
            raise ValueError(f"position {position!r} is not in [0, {_MAX_POSITION}]")
        self._position = position


def _read_deal(deal: Any) -> tuple[int, int]:
    good = isinstance(deal, (list, tuple)) and len(deal) == 2
    if not good or any(isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= _MAX_POSITION for n in deal):
        raise ValueError(f"deal must be [start, target] with numbers 0 to {_MAX_POSITION}, got {deal!r}.")
    return deal[0], deal[1]
