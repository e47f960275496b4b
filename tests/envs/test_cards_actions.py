"""Reading of action texts of the card games."""

import pytest

from agent_envs.envs.cards.actions import (
    BLACKJACK,
    EZPOINTS,
    NUMBERLINE,
    POINTS24,
    POINTS24_FACES,
)


def test_symbols_stand_in_the_order_of_the_original_ids():
    assert EZPOINTS.symbols == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "*", "=")
    assert POINTS24.symbols[10:] == ("+", "-", "*", "/", "(", ")", "=")
    assert POINTS24_FACES.symbols[:13] == tuple(str(n) for n in range(1, 14))
    assert NUMBERLINE.symbols == ("-", "+")
    assert BLACKJACK.symbols == ("stand", "hit")


@pytest.mark.parametrize(
    ("vocabulary", "text", "symbol", "reason"),
    [
        (EZPOINTS, "5", "5", "ok"),
        (EZPOINTS, " 10 \n", "10", "ok"),
        (EZPOINTS, "x", "*", "ok"),
        (EZPOINTS, "×", "*", "ok"),
        (EZPOINTS, "J", "10", "face_alias"),
        (EZPOINTS, "Q", "10", "face_alias"),
        (EZPOINTS, "K", "10", "face_alias"),
        (POINTS24_FACES, "J", "11", "face_alias"),
        (POINTS24_FACES, "K", "13", "face_alias"),
        (EZPOINTS, "3 + 9", "", "action_multiple"),
        (EZPOINTS, "3+9", "", "action_multiple"),
        (EZPOINTS, "3, +", "", "action_multiple"),
        (EZPOINTS, "J + 2", "", "action_multiple"),
        (EZPOINTS, "11", "", "unknown_action"),
        (EZPOINTS, "-", "", "unknown_action"),
        (EZPOINTS, "0", "", "unknown_action"),
        (EZPOINTS, "05", "", "unknown_action"),
        (EZPOINTS, "", "", "unknown_action"),
        (EZPOINTS, "3 then +", "", "unknown_action"),
        (EZPOINTS, "number 3", "", "unknown_action"),
        (EZPOINTS, "A", "", "unknown_action"),
        (EZPOINTS, "٣", "", "unknown_action"),
        (EZPOINTS, "\uff13", "", "unknown_action"),
        (EZPOINTS, "\u212a", "", "unknown_action"),  # the Kelvin sign
        (EZPOINTS, "+" * 100_000, "", "unknown_action"),
        (NUMBERLINE, "left", "-", "ok"),
        (NUMBERLINE, "Right", "+", "ok"),
        (NUMBERLINE, "-", "-", "ok"),
        (NUMBERLINE, "left right", "", "action_multiple"),
        (NUMBERLINE, "leftright", "", "unknown_action"),
        (NUMBERLINE, "1", "", "unknown_action"),
        (BLACKJACK, "HIT", "hit", "ok"),
        (BLACKJACK, "hit, stand", "", "action_multiple"),
        (BLACKJACK, "don't hit", "", "unknown_action"),
    ],
)
def test_reading_of_an_action_text(vocabulary, text, symbol, reason):
    reading = vocabulary.read(text)
    assert (reading.symbol, reading.reason) == (symbol, reason)
