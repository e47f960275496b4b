"""Frames of the card and number games, drawn with Pillow: no image file, no font file.

Cards and words are cached per process, and a frame is put together from them by copying arrays. Of whole
frames (0.27 MB each) only the last ones are kept: as many as the rows of a usual batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

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
_NUM_FRAMES = 128
_SCALE = 4  # shapes are drawn this much larger and reduced, which smooths their edges
_Shape = list[list[tuple[float, float]]]


def card_name(card: Card) -> str:
    """Return a card in words, ``"10 of spades"``."""
    return f"{'10' if card[0] == 'T' else card[0]} of {SUIT_WORDS[card[1]]}"


@cache
def blank_frame(color: Color) -> Frame:
    """Return a read-only frame of one colour, shape (300, 300, 3) uint8."""
    return _frozen(Image.new("RGB", (SIZE, SIZE), color))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


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


class TextStyle(NamedTuple):
    """How a line of text is set."""

    size: int
    """Height of the type in pixels."""
    color: Color
    background: Color
    bold: bool = False
    """The built-in font has no bold face: the strokes are widened."""


def put_text(frame: Frame, text: str, x: int, y: int, style: TextStyle) -> None:
    """Write a line of text, with its ascender at ``y``.

    A line that is too long for the frame is set in smaller type, so that nothing is cut off. Lines are put together
    from cached words: formulas are new all the time, their symbols are not.
    """
    words = text.split(" ")
    while True:
        blank = _font(style.size).getlength(" ")
        pieces = [_word(word, style) for word in words]
        width = sum(piece.advance for piece in pieces) + blank * (len(words) - 1)
        if x + width <= SIZE - 10 or style.size <= 6:
            break
        style = style._replace(size=style.size - 1)
    place = float(x)
    for piece in pieces:
        if piece.picture is not None:
            put(frame, piece.picture, round(place), y)
        place += piece.advance + blank


class _Word(NamedTuple):
    picture: Frame | None
    """None for an empty word, which two blanks in a row enclose."""
    advance: float
    """Width in pixels."""


@lru_cache(maxsize=512)
def _word(word: str, style: TextStyle) -> _Word:
    if not word:
        return _Word(None, 0.0)
    scale = _SCALE if style.bold else 1  # a widened stroke is drawn large and reduced: 1 pixel would be too much
    font = _font(style.size * scale)
    stroke = style.size * scale // 36 if style.bold else 0
    _, _, right, bottom = font.getbbox(word, stroke_width=stroke)
    width, height = math.ceil(right / scale), math.ceil(bottom / scale)
    image = Image.new("RGB", (width * scale, height * scale), style.background)
    ImageDraw.Draw(image).text((0, 0), word, font=font, fill=style.color, stroke_width=stroke)
    return _Word(_frozen(image.resize((width, height), Image.Resampling.BOX)), font.getlength(word) / scale)


def put(frame: Frame, picture: Frame, x: int, y: int) -> None:
    """Copy a picture into a frame with its top left corner at (x, y); what lies outside is cut."""
    height, width = picture.shape[:2]
    target = frame[y : y + height, x : x + width]
    target[...] = picture[: target.shape[0], : target.shape[1]]


def points_frame(cards: Sequence[Card], formula: str) -> Frame:
    """Draw EZPoints (two cards) or Points24 (four): a row of cards and the formula, shape (300, 300, 3) uint8."""
    return _points_frame(tuple(cards), formula).copy()


def numberline_frame(goal: int, position: int) -> Frame:
    """Draw NumberLine: two lines of black text on white, shape (300, 300, 3) uint8."""
    return _numberline_frame(goal, position).copy()


def blackjack_frame(dealer: Sequence[Card | None], player: Sequence[Card]) -> Frame:
    """Draw Blackjack: the dealer's row and the player's rows, shape (300, 300, 3) uint8.

    Args:
        dealer: The dealer's cards, None for one that lies face down.
        player: The player's cards; the fifth and later ones lie in a second row.
    """
    return _blackjack_frame(tuple(dealer), tuple(player)).copy()


@lru_cache(maxsize=_NUM_FRAMES)
def _points_frame(cards: tuple[Card, ...], formula: str) -> Frame:
    frame = _dealt_frame(cards).copy()
    if len(cards) == 2:
        put_text(frame, f"Formula: {formula}", 10, 258, TextStyle(20, WHITE, TABLE))
    else:
        put_text(frame, "Formula:", 10, 210, TextStyle(16, WHITE, TABLE))
        put_text(frame, formula, 10, 240, TextStyle(16, WHITE, TABLE))
    return frame


@lru_cache(maxsize=_NUM_FRAMES // 4)
def _dealt_frame(cards: tuple[Card, ...]) -> Frame:
    """Return a row of cards: fewer deals than frames are in use, since a group shares one."""
    frame = blank_frame(TABLE).copy()
    width = int(SIZE / len(cards) * 0.9)
    height = int(width * 7 / 5)
    for index, card in enumerate(cards):
        put(frame, card_image(card, width, height), 5 + int(index * width * 1.1), int((SIZE - height) / 2))
    return frame


@lru_cache(maxsize=_NUM_FRAMES)
def _numberline_frame(goal: int, position: int) -> Frame:
    frame = blank_frame(WHITE).copy()
    style = TextStyle(36, BLACK, WHITE, bold=True)
    put_text(frame, f"Target: {goal}", 30, 60, style)
    put_text(frame, f"Current: {position}", 30, 180, style)
    return frame


@lru_cache(maxsize=_NUM_FRAMES)
def _blackjack_frame(dealer: tuple[Card | None, ...], player: tuple[Card, ...]) -> Frame:
    frame = blank_frame(TABLE).copy()
    style = TextStyle(16, WHITE, TABLE, bold=True)
    put_text(frame, "Dealer", 5, 5, style)
    put_text(frame, "Player", 5, 130, style)
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
    font = _font(size)
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
