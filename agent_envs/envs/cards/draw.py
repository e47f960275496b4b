"""Frames of the card and number games, drawn with Pillow: no image file, no font file.

Cards and lines of text are cached per process, and a frame is put together from them by copying arrays. Whole frames
are not kept: 2,048 of them would hold 550 MB, and copying one costs nearly as much as putting it together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Frame = npt.NDArray[np.uint8]
Card = tuple[str, str]
"""Rank (``A``, ``2``-``9``, ``T``, ``J``, ``Q``, ``K``) and suit (``H``, ``S``, ``D``, ``C``)."""
Color = tuple[int, int, int]

SIZE: Final = 300
RANKS: Final = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "T", "J", "Q", "K")
SUITS: Final = ("H", "S", "D", "C")
SUIT_WORDS: Final = {"H": "hearts", "S": "spades", "D": "diamonds", "C": "clubs"}
TABLE: Final[Color] = (53, 101, 77)
WHITE: Final[Color] = (255, 255, 255)
BLACK: Final[Color] = (0, 0, 0)

_BORDER: Final[Color] = (150, 150, 150)
_RED: Final[Color] = (200, 16, 32)
_INK: Final[Color] = (20, 20, 20)
_BACK: Final[Color] = (36, 64, 128)
_BACK_LINE: Final[Color] = (150, 172, 220)
_SCALE = 4  # shapes are drawn this much larger and reduced, which smooths their edges
_Shape = list[list[tuple[float, float]]]


def card_name(card: Card) -> str:
    """Return a card in words, ``"10 of spades"``."""
    return f"{'10' if card[0] == 'T' else card[0]} of {SUIT_WORDS[card[1]]}"


@cache
def blank_frame(color: Color) -> Frame:
    """Return a read-only frame of one colour, shape (300, 300, 3) uint8."""
    return _frozen(Image.new("RGB", (SIZE, SIZE), color))


@lru_cache(maxsize=512)
def card_image(card: Card | None, width: int, height: int) -> Frame:
    """Return a read-only picture of a card on the table, shape (height, width, 3) uint8; None is a card's back."""
    s = _SCALE
    image = Image.new("RGB", (width * s, height * s), TABLE)
    pen = ImageDraw.Draw(image)
    box = (0, 0, width * s - 1, height * s - 1)
    radius = width * s // 12
    if card is None:
        pen.rounded_rectangle(box, radius, fill=WHITE, outline=_BORDER, width=s)
        _draw_back(pen, width * s, height * s)
        return _frozen(image.resize((width, height), Image.Resampling.BOX))
    pen.rounded_rectangle(box, radius, fill=WHITE, outline=_BORDER, width=s)
    rank, suit = card
    color = _RED if suit in "HD" else _INK
    w, h = width * s, height * s
    _draw_suit(pen, suit, (w / 2, h / 2), w * 0.24, color)
    mask = _corner_mask("10" if rank == "T" else rank, suit, int(w * 0.44), int(h * 0.38))
    margin = max(2 * s, w // 24)
    image.paste(color, (margin, margin), mask)
    image.paste(color, (w - margin - mask.width, h - margin - mask.height), mask.rotate(180))
    return _frozen(image.resize((width, height), Image.Resampling.BOX))


@lru_cache(maxsize=2048)
def text_image(text: str, size: int, color: Color, background: Color, *, bold: bool = False) -> Frame:
    """Return a read-only line of text on its background, shape (H, W, 3) uint8; its origin is the text's.

    A line that is too long for the frame is set in smaller type, so that nothing is cut off. The built-in font has no
    bold face: ``bold`` widens the strokes.
    """
    scale = _SCALE if bold else 1  # a widened stroke is drawn large and reduced: 1 pixel would be too much
    while True:
        font = ImageFont.load_default(size * scale)
        stroke = size * scale // 36 if bold else 0
        _, _, right, bottom = font.getbbox(text, stroke_width=stroke)
        width, height = max(1, math.ceil(right / scale)), max(1, math.ceil(bottom / scale))
        if width <= SIZE - 20 or size <= 6:
            break
        size -= 1
    image = Image.new("RGB", (width * scale, height * scale), background)
    ImageDraw.Draw(image).text((0, 0), text, font=font, fill=color, stroke_width=stroke)
    return _frozen(image.resize((width, height), Image.Resampling.BOX))


def put(frame: Frame, picture: Frame, x: int, y: int) -> None:
    """Copy a picture into a frame with its top left corner at (x, y); what lies outside is cut."""
    height, width = picture.shape[:2]
    target = frame[y : y + height, x : x + width]
    target[...] = picture[: target.shape[0], : target.shape[1]]


def points_frame(cards: Sequence[Card], formula: str) -> Frame:
    """Draw EZPoints (two cards) or Points24 (four): a row of cards and the formula, shape (300, 300, 3) uint8."""
    frame = blank_frame(TABLE).copy()
    width = int(SIZE / len(cards) * 0.9)
    height = int(width * 7 / 5)
    for index, card in enumerate(cards):
        put(frame, card_image(card, width, height), 5 + int(index * width * 1.1), int((SIZE - height) / 2))
    if len(cards) == 2:
        put(frame, text_image(f"Formula: {formula}", 20, WHITE, TABLE), 10, 258)
    else:
        put(frame, text_image("Formula:", 16, WHITE, TABLE), 10, 210)
        put(frame, text_image(formula, 16, WHITE, TABLE), 10, 240)
    return frame


def numberline_frame(goal: int, position: int) -> Frame:
    """Draw NumberLine: two lines of black text on white, shape (300, 300, 3) uint8."""
    frame = blank_frame(WHITE).copy()
    put(frame, text_image(f"Target: {goal}", 36, BLACK, WHITE, bold=True), 30, 60)
    put(frame, text_image(f"Current: {position}", 36, BLACK, WHITE, bold=True), 30, 180)
    return frame


def blackjack_frame(dealer: Sequence[Card | None], player: Sequence[Card]) -> Frame:
    """Draw Blackjack: the dealer's row and the player's rows, shape (300, 300, 3) uint8.

    Args:
        dealer: The dealer's cards, None for one that lies face down.
        player: The player's cards; the fifth and later ones lie in a second row.
    """
    frame = blank_frame(TABLE).copy()
    put(frame, text_image("Dealer", 16, WHITE, TABLE, bold=True), 5, 5)
    put(frame, text_image("Player", 16, WHITE, TABLE, bold=True), 5, 130)
    _put_row(frame, dealer, 25, step=73)
    _put_row(frame, player[:4], 150, step=74)
    _put_row(frame, player[4:], 252, step=74)
    return frame


def _put_row(frame: Frame, cards: Sequence[Card | None], y: int, *, step: int) -> None:
    # more than four cards overlap, so that each still shows its rank
    step = min(step, (SIZE - 70 - 5) // max(len(cards) - 1, 1))
    for index, card in enumerate(cards):
        put(frame, card_image(card, 70, 98), 5 + index * step, y)


def _frozen(image: Image.Image) -> Frame:
    array = np.array(image, dtype=np.uint8)
    array.flags.writeable = False
    return array


def _corner_mask(rank: str, suit: str, width: int, height: int) -> Image.Image:
    """Return a card's index, the rank above a small suit, as a mask."""
    mask = Image.new("L", (width, height), 0)
    pen = ImageDraw.Draw(mask)
    size = int(height * 0.66)
    font = ImageFont.load_default(size)
    stroke = max(1, size // 40)
    center = width * 0.34
    left, top, right, _ = font.getbbox(rank, stroke_width=stroke)
    pen.text((max(center - (left + right) / 2, -left), -top), rank, font=font, fill=255, stroke_width=stroke)
    _draw_suit(pen, suit, (center, height * 0.82), height * 0.16, 255)
    return mask


def _draw_back(pen: ImageDraw.ImageDraw, width: int, height: int) -> None:
    inset = width // 14
    box = (inset, inset, width - 1 - inset, height - 1 - inset)
    pen.rectangle(box, fill=_BACK)
    step = width // 7
    clip_right, clip_bottom = width - 1 - inset, height - 1 - inset
    for x in range(inset - height, width, step):
        for sign in (1, -1):
            points = [(x + t, inset + t if sign > 0 else clip_bottom - t) for t in range(0, height, 4)]
            inside = [p for p in points if inset <= p[0] <= clip_right and inset <= p[1] <= clip_bottom]
            if len(inside) > 1:
                pen.line([inside[0], inside[-1]], fill=_BACK_LINE, width=max(1, width // 70))
    pen.rectangle(box, outline=_BACK_LINE, width=max(1, width // 60))


def _draw_suit(
    pen: ImageDraw.ImageDraw, suit: str, center: tuple[float, float], radius: float, color: Color | int
) -> None:
    for polygon in _suit_shape(suit):
        pen.polygon([(center[0] + x * radius, center[1] + y * radius) for x, y in polygon], fill=color)


@cache
def _suit_shape(suit: str) -> _Shape:
    """Return the polygons of a suit within the square from -1 to 1, y pointing down."""
    if suit == "D":
        return [[(0.0, -1.0), (0.74, 0.0), (0.0, 1.0), (-0.74, 0.0)]]
    stem = [(-0.07, 0.1), (0.07, 0.1), (0.13, 0.62), (0.36, 0.98), (-0.36, 0.98), (-0.13, 0.62)]
    if suit == "C":
        return [_circle(0, -0.5, 0.45), _circle(-0.5, 0.18, 0.45), _circle(0.5, 0.18, 0.45), _circle(0, 0, 0.3), stem]
    heart = _heart()
    if suit == "H":
        return [heart]
    return [[(x * 0.94, -y * 0.84 - 0.16) for x, y in heart], stem]


def _heart() -> list[tuple[float, float]]:
    points = []
    for step in range(72):
        t = step * math.tau / 72
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((0.96 * math.sin(t) ** 3, -(y + 2.5) / 15))
    return points


def _circle(x: float, y: float, radius: float) -> list[tuple[float, float]]:
    return [
        (x + radius * math.cos(step * math.tau / 48), y + radius * math.sin(step * math.tau / 48)) for step in range(48)
    ]
