"""Frames of the four games: legible, in their places, equal exactly for equal states."""

import numpy as np
import pytest

from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env
from agent_envs.envs.cards.draw import (
    RANKS,
    SUITS,
    blackjack_frame,
    card_image,
    numberline_frame,
    points_frame,
)

_CLASSES = [EZPointsEnv, Points24Env, NumberLineEnv, BlackjackEnv]
_classes = pytest.mark.parametrize("env_class", _CLASSES)


def test_all_52_cards_are_legible():
    """Every two cards differ in at least 40 pixels at the smallest size used."""
    cards = [(rank, suit) for rank in RANKS for suit in SUITS]
    images = np.stack([card_image(card, 67, 93) for card in cards]).astype(np.int16)
    assert images.shape == (52, 93, 67, 3)
    for number, image in enumerate(images[:-1]):
        different = (np.abs(images[number + 1 :] - image) > 16).any(-1).sum((1, 2))
        assert different.min() >= 40, (cards[number], cards[number + 1 + int(different.argmin())])


def test_hearts_and_diamonds_are_red_the_others_black():
    for suit in SUITS:
        height, width = 93, 67
        middle = card_image(("7", suit), width, height)[height // 2, width // 2].astype(int)
        assert (middle[0] > 150) == (suit in "HD") and middle[1] < 60 and middle[2] < 60


def test_places_and_colours():
    table = (53, 101, 77)
    frame = points_frame([("6", "H"), ("Q", "S")], "6 +")
    assert tuple(frame[0, 0]) == table and tuple(frame[54, 70]) == table and tuple(frame[100, 100]) != table
    assert (frame[56:243, 5:140] != table).any(-1).mean() > 0.99  # the first card fills its place
    assert (frame[56:243, 141:152] == table).all()
    assert (frame[258:285, 10:120] > 200).any()
    frame = points_frame([("6", "H")] * 4, "6 +")
    assert (frame[104:195, 226:292] != table).any(-1).mean() > 0.98
    assert (frame[:103] == table).all() and (frame[212:230, 10:80] > 200).any() and (frame[240:260, 10:60] > 200).any()
    frame = numberline_frame(3, 1)
    assert tuple(frame[0, 0]) == (255, 255, 255) and frame[60:110, 30:200].min() == 0 and frame[180:230].min() == 0
    frame = blackjack_frame([("Q", "H"), None], [("A", "C"), ("7", "S")])
    assert (frame[26:122, 5:74] != table).any(-1).mean() > 0.98 and (frame[26:122, 79:147] != table).any(
        -1
    ).mean() > 0.98


def test_frames_are_equal_for_equal_states_and_differ_for_others():
    formulas = ["", "6", "6 +", "+ 6", "6 + 6", "6 * 6", "6 6", "6 + 10", "+ +", "* *"]
    for cards in ([("6", "H"), ("Q", "S")], [("6", "H"), ("Q", "S"), ("A", "C"), ("2", "D")]):
        frames = {points_frame(cards, formula).tobytes() for formula in formulas}
        assert len(frames) == len(formulas)
        assert points_frame(cards, "6 +").tobytes() in frames
    lines = {numberline_frame(goal, position).tobytes() for goal in range(6) for position in range(6)}
    assert len(lines) == 36


def test_long_formulas_stay_within_the_frame():
    cards, longest = [("J", "H")] * 4, " ".join(["10", "+"] * 4 + ["+"] * 13)
    frames = {points_frame(cards, longest + end).tobytes() for end in ("", " )", " *")}
    assert len(frames) == 3
    assert (points_frame(cards, longest)[240:, 292:] == (53, 101, 77)).all()


def test_every_card_of_a_long_hand_shows():
    hand = [("A", "C"), ("2", "H"), ("A", "S"), ("3", "D"), ("2", "C"), ("A", "H"), ("2", "S"), ("A", "D"), ("3", "H")]
    frames = [blackjack_frame([("Q", "H"), None], hand[:length]).tobytes() for length in range(2, 10)]
    assert len(set(frames)) == len(frames)
    other = blackjack_frame([("Q", "H"), None], [*hand[:6], ("9", "D"), *hand[7:]])
    assert other.tobytes() != frames[-1]


@_classes
def test_render(env_class):
    env = env_class(render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    image = observation["image"]
    assert (env.render() == image).all() and env.render() is not env.render()
    silent = env_class(obs_mode="text")
    silent.reset(seed=0)
    assert silent.render() is None


def test_uint8_frames_keep_their_dtype_whatever_their_values():
    space = EZPointsEnv().observation_space["image"]
    assert space.dtype == np.uint8 and space.high.max() == 255
    assert points_frame([("6", "H"), ("Q", "S")], "").dtype == np.uint8


def test_memory_of_many_tasks_is_bounded():
    """Frames of other tasks must not pile up: only the last 128 are kept."""
    import tracemalloc

    env = EZPointsEnv()
    for index in range(150):
        env.reset(options={"task_index": index})
    before = 43_200_000  # 128 frames and 32 deals, all of which the loop replaces while memory is traced
    tracemalloc.start()
    for index in range(150, 350):
        env.reset(options={"task_index": index})
        env.step("+")
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < before + 5_000_000  # 400 kept frames would be 108 MB
