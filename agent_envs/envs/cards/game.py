"""What the four games share: rule sets, splits, forced deals, observations and rendering."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from agent_envs.core import AgentEnv
from agent_envs.envs.cards.actions import Vocabulary
from agent_envs.envs.cards.draw import SIZE, Card, Frame
from agent_envs.errors import unknown_name
from agent_envs.spaces import FreeText
from agent_envs.tasks import derive_seed

OBS_MODES = ("image_text", "image", "text")
RULES = ("agent", "official")
REWARD_MODES = ("success", "original")

_CARD = re.compile(r"([HSDC])([A2-9TJQK])")
_MAX_TEXT = 2048
# Tasks are numbered by their seeds; the test seeds follow the training seeds.
_FIRST_SEED = {"train": 0, "test": 1_000_000}


class Dice:
    """Uniform choices that depend on nothing but a seed and a label.

    One 63-bit digest is read digit by digit. A digest is the same in every process and with every numpy release,
    which a generator's stream is not promised to be; the bias of the last digit is below 1e-11.
    """

    def __init__(self, seed: int, *label: int | str) -> None:
        self._value = derive_seed(seed, *label)

    def roll(self, sides: int) -> int:
        """Return an integer in [0, ``sides``)."""
        self._value, digit = divmod(self._value, sides)
        return digit


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``known``.

    Raises:
        ValueError: If it is not; the text lists the known values.
    """
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)
    return value


def read_cards(deal: Any, *, at_least: int, at_most: int | None = None) -> tuple[Card, ...]:
    """Return the cards of a ``deal`` argument such as ``["H6", "SQ"]``: suit, then rank.

    Raises:
        ValueError: If it is no list of that many cards.
    """
    wanted = f"a list of {at_least if at_most == at_least else f'at least {at_least}'} cards such as 'H6' or 'SQ'"
    if not isinstance(deal, (list, tuple)) or len(deal) < at_least or (at_most is not None and len(deal) > at_most):
        raise ValueError(f"deal must be {wanted}, got {deal!r}.")
    cards = []
    for code in deal:
        match = _CARD.fullmatch(code) if isinstance(code, str) else None
        if match is None:
            raise ValueError(f"deal must be {wanted}, got {code!r}; suits are H, S, D, C, ranks A, 2-9, T, J, Q, K.")
        cards.append((match[2], match[1]))
    return tuple(cards)


class CardGameEnv(AgentEnv):
    """Base of the four games; a game adds its deal, its rules, one line of text and a frame."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 2}
    SPLITS: ClassVar[dict[str, int | str]] = {"train": 1_000_000, "test": 256}
    SUPPORTS_SNAPSHOT: ClassVar[bool] = True
    SENTENCE: ClassVar[str] = ""
    """The text of image observations where it is fixed."""
    REFUSALS: ClassVar[dict[str, str]] = {
        "unknown_action": "the action is not one of the symbols.",
        "action_multiple": "the action holds several symbols, play one per turn.",
    }
    """Refusal code to the words that text observations show."""

    vocabulary: Vocabulary
    """The symbols that actions are read against."""

    def __init__(self, *, obs_mode: str, rules: str, **base: Any) -> None:
        super().__init__(**base)
        self.obs_mode = one_of("obs_mode", obs_mode, OBS_MODES)
        self.rules = one_of("rules", rules, RULES)
        text = FreeText(_MAX_TEXT)
        self.action_space: spaces.Space[str] = FreeText()
        self.observation_space: spaces.Space[Any] = (
            text
            if self.obs_mode == "text"
            else spaces.Dict({"image": spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8), "text": text})
        )

    # ------------------------------------------------------------------ hooks of a game

    @abstractmethod
    def _deal(self, seed: int) -> None:
        """Put the game at the start of the task with this seed."""

    @abstractmethod
    def _describe(self) -> str:
        """Return the state in words: the observation of ``obs_mode="text"``."""

    @abstractmethod
    def _frame(self) -> Frame:
        """Return a new frame, shape (300, 300, 3) uint8."""

    @abstractmethod
    def _instruction(self) -> str:
        """Return the task in words."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """Return the options that decide the deals and rules, as a JSON object."""

    def _text_line(self) -> str:
        """Return the text of ``obs_mode="image_text"``."""
        return self.SENTENCE

    def _available(self) -> list[str]:
        """Return the symbols that would be accepted now, in the vocabulary's order."""
        return list(self.vocabulary.symbols)

    # ------------------------------------------------------------------ the base class

    def task_name(self, split: str, index: int) -> str:
        """Return the task's seed: 0 to 999,999 in ``train``, 1,000,000 to 1,000,255 in ``test``."""
        return str(_FIRST_SEED[split] + index)

    def task_source(self, split: str) -> Any:
        """Return what determines the deals: the split's seeds and the options."""
        return {**super().task_source(split), "first_seed": _FIRST_SEED[split], "options": self._options()}

    def _reset_task(self, split: str, index: int) -> None:
        self.task = self._instruction()
        self._deal(_FIRST_SEED[split] + index)

    def _read(self, action: str) -> str:
        """Return the symbol of an action, or an empty string and the refusal's code in ``refusal``."""
        reading = self.vocabulary.read(action)
        if not reading.symbol:
            self.refusal = reading.reason
        return reading.symbol

    def _win(self) -> None:
        self.success, self.score = True, 1.0

    def _over(self) -> bool:
        return self._terminated or self._truncated

    def _observe(self) -> Any:
        if self.obs_mode == "text":
            why = self.REFUSALS.get(self.refusal)
            return f"{self._describe()}\nRefused: {why}" if why else self._describe()
        return {"image": self._frame(), "text": self.SENTENCE if self.obs_mode == "image" else self._text_line()}

    def _extra_info(self) -> dict[str, Any]:
        return {"admissible_actions": [] if self._over() else self._available()}

    def render(self) -> Frame | None:
        """Return the frame of the state if ``render_mode`` is ``"rgb_array"``, else None."""
        return self._frame() if self.render_mode == "rgb_array" else None
