"""EZPoints and Points24: build a formula from the numbers of the cards, one symbol per turn."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from agent_envs.envs.cards.actions import EZPOINTS, POINTS24, POINTS24_FACES
from agent_envs.envs.cards.draw import RANKS, SUITS, Card, Frame, card_name, points_frame
from agent_envs.envs.cards.formula import ARITHMETICS, Arithmetic, value_of
from agent_envs.envs.cards.game import REWARD_MODES, CardGameEnv, Dice, one_of, read_cards
from agent_envs.envs.cards.solver import complete, solve

_BLANK = " "
_FACE_NUMBERS = {"A": 1, "T": 10, "J": 11, "Q": 12, "K": 13}
_ON_INVALID = ("keep", "blank")


def number_of(rank: str, *, faces_as_10: bool = True) -> int:
    """Return the number of a rank: A is 1, T is 10, J, Q, K are 10 or else 11, 12, 13."""
    number = _FACE_NUMBERS[rank] if rank in _FACE_NUMBERS else int(rank)
    return min(number, 10) if faces_as_10 else number


class PointsEnv(CardGameEnv):
    """Base of EZPoints and Points24: everything but the deal."""

    TARGET: ClassVar[int]
    NUM_CARDS: ClassVar[int]
    MAX_SYMBOLS: ClassVar[int]
    """A symbol played when the formula has more than this many ends the episode."""
    OPERATORS: ClassVar[tuple[str, ...]]
    """For the oracle, in the order it tries them."""
    REFUSALS: ClassVar[dict[str, str]] = {
        **CardGameEnv.REFUSALS,
        "number_unavailable": "no unused card has this number.",
    }

    def __init__(
        self,
        *,
        max_turns: int,
        rules: str,
        on_invalid: str | None,
        reward_mode: str | None,
        arithmetic: str | None,
        deal: list[str] | None,
        **base: Any,
    ) -> None:
        super().__init__(max_turns=max_turns, rules=rules, **base)
        official = rules == "official"
        self.on_invalid = one_of("on_invalid", on_invalid or ("blank" if official else "keep"), _ON_INVALID)
        self.reward_mode = one_of("reward_mode", reward_mode or ("original" if official else "success"), REWARD_MODES)
        name = one_of("arithmetic", arithmetic or ("float" if official else "exact"), ARITHMETICS)
        self.arithmetic: Arithmetic = "float" if name == "float" else "exact"
        self.faces_as_10 = True
        self.deal = None if deal is None else read_cards(deal, at_least=self.NUM_CARDS, at_most=self.NUM_CARDS)
        self._failure_reward = -1.0 if self.reward_mode == "original" else 0.0
        self._cards: tuple[Card, ...] = ()
        self._numbers: tuple[int, ...] = ()
        self._formula: list[str] = []
        self._ended = False

    @abstractmethod
    def _draw(self, seed: int) -> tuple[Card, ...]:
        """Return the cards of a seed in the order shown."""

    # ------------------------------------------------------------------ hooks

    def _deal(self, seed: int) -> None:
        self._cards = self._draw(seed) if self.deal is None else self.deal
        self._numbers = tuple(number_of(rank, faces_as_10=self.faces_as_10) for rank, _ in self._cards)
        self._formula, self._ended = [], False

    def _act(self, action: str) -> tuple[float, bool, bool]:
        symbol = self._read(action)
        if not symbol:
            return 0.0, False, False
        if len(self._formula) > self.MAX_SYMBOLS:  # before anything else, "=" too: the order of the original
            self._ended = True
            self.truncate()
            return self._failure_reward, False, True
        if symbol.isdigit() and int(symbol) not in self._left():
            self.refusal = "number_unavailable"
            if self.on_invalid == "blank":
                self._formula.append(_BLANK)
            return self._failure_reward, False, False
        if symbol != "=":
            self._formula.append(symbol)
            return 0.0, False, True
        self._ended = True
        if not self._left() and value_of(self._formula, self.arithmetic) == self.TARGET:
            self._win()
            return 10.0, True, True
        return self._failure_reward, True, True

    def _left(self) -> list[int]:
        """Return the numbers not used yet, in the order of the cards."""
        left = list(self._numbers)
        for symbol in self._formula:
            if symbol.isdigit():
                left.remove(int(symbol))
        return left

    def _available(self) -> list[str]:
        left = self._left()
        return [s for s in self.vocabulary.symbols if not s.isdigit() or int(s) in left]

    def canonical_state(self) -> Any:
        """Return cards in shown order, symbols of the formula, and whether the game has ended."""
        return {"cards": [list(card) for card in self._cards], "formula": list(self._formula), "ended": self._ended}

    def example_actions(self) -> list[str]:
        """Return symbols that complete the formula and win; an empty list if none are known.

        An empty formula is solved whenever it can be. A formula already begun is completed without opening further
        parentheses, so a few that could still win have no answer.
        """
        if self._over():
            return []
        limit = self.MAX_SYMBOLS
        if not self._formula and self.NUM_CARDS > 2:
            found = solve(self._numbers, self.TARGET, self.arithmetic)
            return [] if found is None else [*found, "="]
        tail = complete(
            self._formula,
            self._left(),
            self.OPERATORS,
            self.TARGET,
            max_symbols=limit,
            arithmetic=self.arithmetic,
        )
        return [] if tail is None else [*tail, "="]

    def _describe(self) -> str:
        names = ", ".join(map(card_name, self._cards))
        return f"Cards: {names}. Numbers: {', '.join(map(str, self._numbers))}. {self._text_line()}"

    def _text_line(self) -> str:
        return f"Formula: {' '.join(self._formula)}"

    def _frame(self) -> Frame:
        return points_frame(self._cards, " ".join(self._formula))

    def _options(self) -> dict[str, Any]:
        return {
            "on_invalid": self.on_invalid,
            "reward_mode": self.reward_mode,
            "arithmetic": self.arithmetic,
            "faces_as_10": self.faces_as_10,
            "deal": self.deal,
        }

    def _save_state(self) -> Any:
        return {"formula": self._formula, "ended": self._ended}

    def _load_state(self, state: Any) -> None:
        formula = [str(symbol) for symbol in state["formula"]]
        self._formula, self._ended = [], bool(state["ended"])
        for symbol in formula:
            if symbol != _BLANK and (symbol == "=" or symbol not in self._available()):
                raise ValueError(f"{symbol!r} cannot stand in the formula {formula}")
            self._formula.append(symbol)


class EZPointsEnv(PointsEnv):
    """Two cards: build a formula that equals 12.

    ## Description
    The frame shows two playing cards and the formula written so far. The policy writes one symbol per turn and ends
    with `=`. J, Q and K count as 10. Every deal can be solved by one addition or one multiplication. The rules are
    those of EZPoints in gym-cards (RL4VLM), written anew, with own drawings.

    ## Action
    One symbol as text: `1` to `10`, `+`, `*`, `=` (ids 0 to 12 in the original). `J`, `Q`, `K` are read as `10`, `x`
    and `×` as `*`. A number can be written as often as cards with it are unused. Refused actions use a turn and leave
    the state as it is; `info["refusal"]` is `unknown_action`, `action_multiple` or `number_unavailable`.
    `info["admissible_actions"]` lists the symbols that are accepted, in the order above.

    ## Observation
    `obs_mode="image_text"` (default): `{"image": (300, 300, 3) uint8, "text": "Formula: 6 +"}`.
    `"image"`: the same, the text is one fixed sentence.
    `"text"`: `"Cards: 6 of hearts, Q of spades. Numbers: 6, 10. Formula: 6 +"`, with a second line after a refusal.

    ## Reward
    `reward_mode="success"`: 10 for a formula that equals 12 and uses both numbers, else 0.
    `"original"`: 10; -1 for a wrong formula, for an unavailable number and for a formula that is too long; else 0.
    `success` and `score` (1.0) follow the formula, not the reward.

    ## Episode end
    `=` terminates. A symbol played when the formula already has more than 5 symbols truncates, and so does turn
    `max_turns`.

    ## Canonical state
    `{"cards": [[rank, suit], ...], "formula": [symbols], "ended": bool}`, cards in the order shown. A refused action
    keeps it, except with `on_invalid="blank"`.

    ## Tasks and splits
    A task is a seed: `train` has 0 to 999,999, `test` 1,000,000 to 1,000,255; `task_id` is `ezpoints/<split>/<seed>`.

    ## Arguments
    - `obs_mode`: `"image_text"`, `"image"` or `"text"`.
    - `rules`: `"agent"` or `"official"`; sets the next three where they are not given.
    - `on_invalid`: an unavailable number `"keep"`s the formula (agent) or appends a `"blank"` (official).
    - `reward_mode`: `"success"` (agent) or `"original"` (official).
    - `arithmetic`: `"exact"` fractions (agent) or `"float"` as Python computes (official). Both read `**` and `//`;
      a value above 1,000,000, a root that is not rational and a division by zero are failures.
    - `deal`: two cards such as `["H6", "SQ"]` that every task deals, for tests and replays.
    - `max_turns`: 8.
    - `split`, `state_key`, `render_mode` (`"rgb_array"`): as in every environment.

    ## Version history
    - v0: first version.
    """

    TARGET = 12
    NUM_CARDS = 2
    MAX_SYMBOLS = 5
    OPERATORS = ("*", "+")
    SENTENCE = "The picture shows two cards and the formula written so far."
    vocabulary = EZPOINTS

    def __init__(
        self,
        *,
        max_turns: int = 8,
        obs_mode: str = "image_text",
        rules: str = "agent",
        on_invalid: str | None = None,
        reward_mode: str | None = None,
        arithmetic: str | None = None,
        deal: list[str] | None = None,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            max_turns=max_turns,
            obs_mode=obs_mode,
            rules=rules,
            on_invalid=on_invalid,
            reward_mode=reward_mode,
            arithmetic=arithmetic,
            deal=deal,
            split=split,
            state_key=state_key,
            render_mode=render_mode,
        )

    def _draw(self, seed: int) -> tuple[Card, ...]:
        dice = Dice(seed, "ezpoints", "deal")
        rank = RANKS[1 + dice.roll(12)]
        number = number_of(rank)
        has_product = number in (1, 2, 3, 4, 6)
        other = 12 // number if has_product and dice.roll(2) == 0 else 12 - number
        cards = ((rank, SUITS[dice.roll(4)]), (RANKS[other - 1], SUITS[dice.roll(4)]))
        return cards if dice.roll(2) == 0 else (cards[1], cards[0])

    def _instruction(self) -> str:
        return (
            "Write a formula that equals 12 with the numbers of the two cards, each used once, and + or *. "
            "J, Q and K count as 10. Write one symbol per turn and end with =."
        )


class Points24Env(PointsEnv):
    """Four cards: build a formula that equals 24.

    ## Description
    The frame shows four playing cards and the formula written so far. The policy writes one symbol per turn and ends
    with `=`. The rules are those of Points24 in gym-cards (RL4VLM), written anew, with own drawings. Some deals
    cannot be solved.

    ## Action
    One symbol as text: `1` to `10` (to `13` with `treat_face_cards_as_10=False`), `+`, `-`, `*`, `/`, `(`, `)`, `=`,
    in the order of the original's ids. `J`, `Q`, `K` are read as their number, `x` and `×` as `*`. A number can be
    written as often as cards with it are unused. Refused actions use a turn and leave the state as it is;
    `info["refusal"]` is `unknown_action`, `action_multiple` or `number_unavailable`.
    `info["admissible_actions"]` lists the symbols that are accepted, in the order above.

    ## Observation
    `obs_mode="image_text"` (default): `{"image": (300, 300, 3) uint8, "text": "Formula: 6 +"}`.
    `"image"`: the same, the text is one fixed sentence.
    `"text"`: `"Cards: A of spades, ... Numbers: 1, 4, 10, 10. Formula: 1 +"`, with a second line after a refusal.

    ## Reward
    `reward_mode="success"`: 10 for a formula that equals 24 and uses all four numbers, else 0.
    `"original"`: 10; -1 for a wrong formula, for an unavailable number and for a formula that is too long; else 0.
    Two numbers side by side form one literal and count as two: `2 4 + 1 - 1` wins. `success` and `score` (1.0) follow
    the formula, not the reward.

    ## Episode end
    `=` terminates. A symbol played when the formula already has more than 20 symbols truncates, and so does turn
    `max_turns`.

    ## Canonical state
    `{"cards": [[rank, suit], ...], "formula": [symbols], "ended": bool}`, cards in the order shown. A refused action
    keeps it, except with `on_invalid="blank"`.

    ## Tasks and splits
    A task is a seed: `train` has 0 to 999,999, `test` 1,000,000 to 1,000,255; `task_id` is `points24/<split>/<seed>`.

    ## Arguments
    - `obs_mode`: `"image_text"`, `"image"` or `"text"`.
    - `rules`: `"agent"` or `"official"`; sets the next three where they are not given.
    - `on_invalid`: an unavailable number `"keep"`s the formula (agent) or appends a `"blank"` (official).
    - `reward_mode`: `"success"` (agent) or `"original"` (official).
    - `arithmetic`: `"exact"` fractions (agent) or `"float"` as Python computes (official), which misses
      `8/(3-8/3)`. Both read `**` and `//`; a value above 1,000,000, a root that is not rational and a division by
      zero are failures.
    - `treat_face_cards_as_10`: True, or False for 11, 12, 13.
    - `solvable_only`: deal again until the cards can be solved; False by default, as in the original.
    - `deal`: four cards such as `["S3", "H3", "D8", "C8"]` that every task deals, for tests and replays.
    - `max_turns`: 20.
    - `split`, `state_key`, `render_mode` (`"rgb_array"`): as in every environment.

    ## Version history
    - v0: first version.
    """

    TARGET = 24
    NUM_CARDS = 4
    MAX_SYMBOLS = 20
    OPERATORS = ("+", "-", "*", "/")
    SENTENCE = "The picture shows four cards and the formula written so far."

    def __init__(
        self,
        *,
        max_turns: int = 20,
        obs_mode: str = "image_text",
        rules: str = "agent",
        on_invalid: str | None = None,
        reward_mode: str | None = None,
        arithmetic: str | None = None,
        treat_face_cards_as_10: bool = True,
        solvable_only: bool = False,
        deal: list[str] | None = None,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            max_turns=max_turns,
            obs_mode=obs_mode,
            rules=rules,
            on_invalid=on_invalid,
            reward_mode=reward_mode,
            arithmetic=arithmetic,
            deal=deal,
            split=split,
            state_key=state_key,
            render_mode=render_mode,
        )
        self.faces_as_10 = bool(treat_face_cards_as_10)
        self.vocabulary = POINTS24 if self.faces_as_10 else POINTS24_FACES
        self.solvable_only = bool(solvable_only)
        if self.solvable_only and self.deal is not None and not self._solvable(self.deal):
            raise ValueError(f"solvable_only=True, but deal={deal!r} cannot make 24. Drop one of the two.")

    def _solvable(self, cards: tuple[Card, ...]) -> bool:
        numbers = sorted(number_of(rank, faces_as_10=self.faces_as_10) for rank, _ in cards)
        return solve(tuple(numbers), self.TARGET, self.arithmetic) is not None

    def _draw(self, seed: int) -> tuple[Card, ...]:
        attempt = 0
        while True:
            dice = Dice(seed, "points24", attempt)
            cards = tuple((RANKS[dice.roll(13)], SUITS[dice.roll(4)]) for _ in range(4))
            if not self.solvable_only or self._solvable(cards):
                return cards
            attempt += 1

    def _instruction(self) -> str:
        faces = "J, Q and K count as 10" if self.faces_as_10 else "J, Q and K count as 11, 12 and 13"
        return (
            "Write a formula that equals 24 with the numbers of the four cards, each used once, + - * / and "
            f"parentheses. A counts as 1, {faces}. Write one symbol per turn and end with =."
        )

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "solvable_only": self.solvable_only}
