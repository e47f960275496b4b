"""Blackjack against a dealer who draws to 17, from an infinite deck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_envs.envs.cards.actions import BLACKJACK
from agent_envs.envs.cards.draw import RANKS, SUITS, Card, Frame, blackjack_frame, card_name
from agent_envs.envs.cards.game import REWARD_MODES, CardGameEnv, Dice, one_of, read_cards

_TENS = ("J", "Q", "K")  # a card of value 10 never shows a ten
_DEALT = 4  # two cards each: numbers 0 and 1 are the dealer's, 2 and 3 the player's


def hand_total(hand: Sequence[Card]) -> int:
    """Return the points of a hand; one ace counts 11 while the total stays within 21."""
    total = sum(_value(rank) for rank, _ in hand)
    return total + 10 if total <= 11 and any(rank == "A" for rank, _ in hand) else total


def is_natural(hand: Sequence[Card]) -> bool:
    """Return whether a hand is an ace and a card of value ten."""
    return len(hand) == 2 and hand_total(hand) == 21


def basic_strategy(player: Sequence[Card], shown: Card) -> str:
    """Return ``stand`` at 17 or more, and at 12 to 16 against a dealer's 2 to 6; else ``hit``."""
    total = hand_total(player)
    return "stand" if total >= 17 or (total >= 12 and 2 <= _value(shown[0]) <= 6) else "hit"


def _value(rank: str) -> int:
    return 1 if rank == "A" else int(rank) if rank.isdigit() else 10


class BlackjackEnv(CardGameEnv):
    """Draw cards to come nearer to 21 than the dealer, but not above.

    ## Description
    Both sides get two cards; one of the dealer's lies face down. The deck is infinite: values 1 to 9, and 10 with
    four times the weight, shown as J, Q or K. The rules are those of Blackjack in gym-cards (RL4VLM), written anew,
    with own drawings.

    ## Action
    `stand` (id 0 in the original) or `hit` (id 1). Any other text is refused (`unknown_action`, `action_multiple`),
    uses a turn and leaves the state as it is. `info["admissible_actions"]` is `["stand", "hit"]` until the end.

    ## Observation
    `obs_mode="image"` (default): `{"image": (300, 300, 3) uint8, "text": one fixed sentence}`; `"image_text"` is the
    same. `"text"`: `"Dealer shows Q of hearts. Your cards: A of clubs, 7 of spades."`, with a second line after a
    refusal. The dealer's other cards appear only when the game has ended, in the frame, in the text and in
    `info["dealer"]` (codes such as `"HQ"`; an empty list before).

    ## Reward
    After `stand` the dealer draws while below 17. Higher total: 1. Equal: 0. Lower, or above 21: 0 with
    `reward_mode="success"`, -1 with `"original"`. A total above 21 counts as 0 for the dealer and loses at once for
    the player. An ace counts 11 while the total stays within 21. `success` is a win; `score` is 1.0 then.

    ## Episode end
    `stand` and a total above 21 terminate, turn `max_turns` truncates.

    ## Canonical state
    `{"player": [[rank, suit], ...], "dealer": [[rank, suit]], "ended": bool, "draws": n}` with the dealer's shown
    card and the number of cards drawn. Card `k` of a task is a function of the task and `k`, so equal actions of a
    group's members meet equal cards; the hidden card is no part of the state's text.

    ## Tasks and splits
    A task is a seed: `train` has 0 to 999,999, `test` 1,000,000 to 1,000,255; `task_id` is
    `blackjack/<split>/<seed>`. Some tasks cannot be won.

    ## Arguments
    - `obs_mode`: `"image"`, `"image_text"` or `"text"`.
    - `rules`: `"agent"` or `"official"`; sets `reward_mode` where it is not given.
    - `reward_mode`: `"success"` (agent, a loss pays 0) or `"original"` (official, a loss pays -1).
    - `natural`: a win with an ace and a ten pays 1.5.
    - `sab`: an ace and a ten win against every other hand, paid 1; `natural` is then without effect.
    - `deal`: the first cards of every task in drawing order (two of the dealer, two of the player, then as drawn)
      such as `["HQ", "C7", "CA", "S7"]`, for tests and replays.
    - `max_turns`: 15.
    - `split`, `state_key`, `render_mode` (`"rgb_array"`): as in every environment.

    ## Version history
    - v0: first version.
    """

    SENTENCE = "The picture shows the dealer's cards, one face down, and your cards."
    vocabulary = BLACKJACK

    def __init__(
        self,
        *,
        max_turns: int = 15,
        obs_mode: str = "image",
        rules: str = "agent",
        reward_mode: str | None = None,
        natural: bool = False,
        sab: bool = False,
        deal: list[str] | None = None,
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
        default = "original" if rules == "official" else "success"
        self.reward_mode = one_of("reward_mode", reward_mode or default, REWARD_MODES)
        self.natural, self.sab = bool(natural), bool(sab)
        self.deal = None if deal is None else read_cards(deal, at_least=_DEALT)
        self._seed = 0
        self._dealer: list[Card] = []
        self._player: list[Card] = []
        self._ended = False

    def _card(self, number: int) -> Card:
        """Return the card drawn as number ``number`` (from 0) of this task."""
        if self.deal is not None and number < len(self.deal):
            return self.deal[number]
        dice = Dice(self._seed, "blackjack", number)
        value = dice.roll(13)
        rank = RANKS[value] if value < 9 else _TENS[dice.roll(3)]
        return rank, SUITS[dice.roll(4)]

    def _next_card(self) -> Card:
        return self._card(len(self._dealer) + len(self._player))

    def _deal(self, seed: int) -> None:
        self._seed, self._ended = seed, False
        cards = [self._card(number) for number in range(_DEALT)]
        self._dealer, self._player = cards[:2], cards[2:]

    def _act(self, action: str) -> tuple[float, bool, bool]:
        symbol = self._read(action)
        if not symbol:
            return 0.0, False, False
        if symbol == "hit":
            self._player.append(self._next_card())
            self._ended = hand_total(self._player) > 21
            return self._loss() if self._ended else 0.0, self._ended, True
        self._ended = True
        while hand_total(self._dealer) < 17:
            self._dealer.append(self._next_card())
        reward = self._outcome(self._dealer, self._player)
        if reward > 0:
            self._win()
        return reward, True, True

    def _loss(self) -> float:
        return -1.0 if self.reward_mode == "original" else 0.0

    def _outcome(self, dealer: Sequence[Card], player: Sequence[Card]) -> float:
        """Return the reward of two final hands; the player's is at most 21."""
        mine = hand_total(player)
        theirs = hand_total(dealer) if hand_total(dealer) <= 21 else 0
        if self.sab and is_natural(player) and not is_natural(dealer):
            return 1.0
        if mine > theirs:
            return 1.5 if self.natural and not self.sab and is_natural(player) else 1.0
        return 0.0 if mine == theirs else self._loss()

    def canonical_state(self) -> Any:
        """Return the player's cards, the dealer's shown card, whether the game has ended, and the cards drawn."""
        return {
            "player": [list(card) for card in self._player],
            "dealer": [list(self._dealer[0])],
            "ended": self._ended,
            "draws": len(self._player) + len(self._dealer),
        }

    def example_actions(self) -> list[str]:
        """Return actions that win, an empty list if none do.

        The walk of :func:`basic_strategy` if it wins, else the shortest winning one: it looks at the cards to come.
        """
        if self._over():
            return []
        player, walks = list(self._player), list[list[str]]()
        advised: list[str] | None = None
        while hand_total(player) <= 21:
            walk = ["hit"] * (len(player) - len(self._player)) + ["stand"]
            if advised is None and basic_strategy(player, self._dealer[0]) == "stand":
                advised = walk
            dealer = list(self._dealer)
            while hand_total(dealer) < 17:
                dealer.append(self._card(len(dealer) + len(player)))
            if self._outcome(dealer, player) > 0:
                walks.append(walk)
            player.append(self._card(len(self._dealer) + len(player)))
        return [] if not walks else advised if advised in walks else walks[0]

    def _describe(self) -> str:
        mine = ", ".join(map(card_name, self._player))
        if self._ended:
            return f"Dealer has {', '.join(map(card_name, self._dealer))}. Your cards: {mine}."
        return f"Dealer shows {card_name(self._dealer[0])}. Your cards: {mine}."

    def _frame(self) -> Frame:
        return blackjack_frame(self._dealer if self._ended else [self._dealer[0], None], self._player)

    def _instruction(self) -> str:
        return "Come nearer to 21 than the dealer without going above: hit draws a card, stand ends your turn."

    def _options(self) -> dict[str, Any]:
        return {"reward_mode": self.reward_mode, "natural": self.natural, "sab": self.sab, "deal": self.deal}

    def _extra_info(self) -> dict[str, Any]:
        dealer = [suit + rank for rank, suit in self._dealer] if self._ended else []
        return {**super()._extra_info(), "dealer": dealer}

    def _save_state(self) -> Any:
        return {"player": len(self._player), "dealer": len(self._dealer), "ended": self._ended}

    def _load_state(self, state: Any) -> None:
        player, dealer = int(state["player"]), int(state["dealer"])
        if min(player, dealer) < 2 or max(player, dealer) > 21:
            raise ValueError(f"{player} and {dealer} cards are no two hands")
        self._player += [self._card(number) for number in range(_DEALT, player + 2)]
        self._dealer += [self._card(number) for number in range(player + 2, player + dealer)]
        self._ended = bool(state["ended"])
