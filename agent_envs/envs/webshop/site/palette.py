"""Colours of the product pictures: from words such as ``dusty rose`` or ``black | gold`` to the shades of a drawing."""

import re
from dataclasses import dataclass

Rgb = tuple[int, int, int]

# Colour words, then scents, flavours and materials that have a colour of their own.
_WORDS = """
alabaster f2efe6, antique 9a7b4f, apricot f4b183, aqua 5cc9d6, army 5b6440, ash b4b2a9, auburn 8a3a24, azure 3f8fe0,
ballet f3cdd3, banana f6dd6b, beige d9c7a8, berry 8e2f57, black 2a2d33, blonde e3c57f, blue 3569c8, blush eeb9b4,
bordeaux 6d1f33, brick a4472f, bronze 9c6b3c, brown 7a5136, burgundy 7a1f37, camel c0925a, camo 66704a,
caramel b8793d, champagne ead9b5, charcoal 474c55, cherry b3213b, chestnut 7c4630, chocolate 5d3a26, clear dfe9ee,
coffee 6a4a37, cognac a35d34, copper b8703f, coral f0806a, cranberry a42142, cream f3e9d2, crème f3e9d2,
crystal dcebf0, denim 4a6a94, ebony 3a322d, eggplant 51304f, emerald 1f8a5f, espresso 4a3428, fair f3dcc6,
fuchsia cf3f94, ginger c98a3c, gold d4a93f, grape 6d3f86, graphite 51565e, grass 6aa84f, gray 9298a1, green 4f8f58,
grey 9298a1, hazelnut a0714a, heather a3a9b4, honey dba444, indigo 3f3f8f, ivory f4efdf, ivy 4b6b45, khaki b7a57a,
lavender b3a2d8, leopard c79a5b, lemon f1d94e, lilac c4aede, lime a5c93d, magenta c43c8b, mahogany 6a2c22,
mango f2a73b, maple c1824a, marble e9e9ea, maroon 6f2232, matcha 9bb566, mauve b48aa0, merlot 65203a, midnight 232c4e,
mint a3d9c0, mocha 8a6650, multicolor 7f8ad1, mushroom b3a496, mustard d6a62e, natural d8c3a0, navy 27375f,
nude e3bfa2, oak c19a6b, olive 7c7f45, orange ee8a33, peach f7bd9b, pepper 4c463f, peppermint a8dcc8, pewter 8f969c,
pine 5a7d5c, pink eba0b5, pistachio b4c88a, plum 6e3560, porcelain f5e3d3, purple 7d57a6, rainbow 8a7fd6,
raspberry c32f5c, red c8353d, rose d98b97, royal 2f52b5, ruby 9f1f3f, rust ad5630, rustic 84603f, sage a3b296,
salt e8e6e1, sand d8c19c, sandalwood b58d5f, sapphire 2450a4, scarlet c4252e, sea 7cc0c4, silver c3c9d1, sky 8cc3ec,
slate 5f6b7a, smoke 7d8085, space 5b6069, steel a7b0ba, stone b5ada0, strawberry e5566a, sunflower f0c02f, tan cba678,
tangerine f28c38, taupe a08f80, teal 2a8c8c, terracotta c4694a, tiger d98a36, tropical f59e5b, truffle 5a4638,
turquoise 3fbfb8, vanilla f0e2bd, velvet 6b3a55, violet 7b5cc0, walnut 70492f, watermelon ee6a77, wheat e4cd9c,
white f5f6f7, wine 6d2037, yellow f0cf45, cedar a8714b, eucalyptus 8fb3a0, bergamot dcc35a, amber d1933b,
jasmine f2ead0, coconut efe9dd, orchid b86fb4, citrus f3b53e, mesquite 7b4a33, barbecue 9d4a2c, buffalo dd6a2d,
cheddar eda53a, jalapeno 6f9a44, chili b93a2a, garlic efe6d0, cinnamon a9683c, blueberry 4f5fa8, apple 9dbf4e,
pumpkin e0843a, sesame d9c08f, cocoa 6b4530, dill 8fa65e, original d8b36a
"""
_HEX = {name: value for name, value in (pair.split() for pair in _WORDS.replace("\n", " ").split(","))}
_PATTERN = re.compile(r"\b(" + "|".join(sorted(_HEX, key=len, reverse=True)) + r")(?:s|es)?\b")
_LIGHTER = re.compile(r"\b(?:light|pale|soft|baby|dusty|off)\b")
_DARKER = re.compile(r"\b(?:dark|deep)\b")
_WHITE, _BLACK = (255, 255, 255), (18, 22, 30)

# For products whose options name no colour.
_QUIET = "5b7fb5 c98a5b 6f9a7d a86f86 7f76b0 d0a24c 5c9aa6 b3685a 8a9a5b 6c7a91 c27f9a 4f8a8b".split()
_ACCENTS = "e0a43a 3f6e8c c8553d 5f8a5a 6d5a8c f0ead9".split()
_MIN_CONTRAST = 90  # distance of an accent from the main colour, of 765


@dataclass(frozen=True, kw_only=True, slots=True)
class Shades:
    """Colours of one drawing, as ``#rrggbb``."""

    main: str
    light: str
    pale: str
    dark: str
    deep: str
    accent: str
    backdrop: str
    """Behind the product, upper edge."""
    floor: str
    """Behind the product, lower edge."""


def named_colours(text: str) -> list[Rgb]:
    """Return up to two colours that a text names, the first being that of most of the product.

    Parts divided by ``|`` are colours of their own; of several words in one part the last decides (``rose gold``).
    """
    found = []
    for part in text.lower().split("|"):
        words = _PATTERN.findall(part)
        if words:
            colour = _rgb(_HEX[words[-1]])
            if len(words) > 1:
                colour = _mix(colour, _rgb(_HEX[words[-2]]), 0.45)
            if _LIGHTER.search(part):
                colour = _mix(colour, _WHITE, 0.45)
            elif _DARKER.search(part):
                colour = _mix(colour, _BLACK, 0.4)
            found.append(colour)
    return found[:2]


def shades_for(colours: list[Rgb], draw: int) -> Shades:
    """Return the shades of a drawing.

    Args:
        colours: Main colour and accent as far as they are known.
        draw: Number that decides what is not known; the same number gives the same shades.
    """
    main = colours[0] if colours else _rgb(_QUIET[draw % len(_QUIET)])
    if len(colours) > 1:
        accent = colours[1]
    else:
        choices = [_rgb(value) for value in _ACCENTS]
        fitting = [colour for colour in choices if _distance(colour, main) > _MIN_CONTRAST]
        accent = fitting[draw // len(_QUIET) % len(fitting)]
    tint = _mix(main, (226, 230, 237), 0.8)
    return Shades(
        main=_hex(main),
        light=_hex(_mix(main, _WHITE, 0.3)),
        pale=_hex(_mix(main, _WHITE, 0.7)),
        dark=_hex(_mix(main, _BLACK, 0.28)),
        deep=_hex(_mix(main, _BLACK, 0.55)),
        accent=_hex(accent),
        backdrop=_hex(_mix(tint, _WHITE, 0.45)),
        floor=_hex(tint),
    )


def hex_of(colour: Rgb) -> str:
    """Return ``#rrggbb``."""
    return _hex(colour)


def _rgb(text: str) -> Rgb:
    return int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)


def _hex(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _mix(first: Rgb, second: Rgb, share: float) -> Rgb:
    """Return the first colour with a share of the second."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _distance(first: Rgb, second: Rgb) -> int:
    return sum(abs(a - b) for a, b in zip(first, second, strict=True))
