"""Product pictures, drawn by this package: a silhouette for the kind of product in the colour of the chosen option.

The drawings stand in ``shapes/*.svg``. Each is a ``<g>`` at the start of a line, with the words it stands for; its
colours are place-holders such as ``@m`` that are filled in here. The same product and colour give the same bytes.
"""

import functools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from agent_envs.envs.webshop.catalogue import Product
from agent_envs.envs.webshop.site.palette import Shades, hex_of, named_colours, shades_for

SHELVES = ("fashion", "beauty", "electronics", "home", "grocery")
COLOUR_AXES = ("color", "colour", "metal", "finish", "shade")

_FOLDER = files("agent_envs.envs.webshop.site") / "shapes"
_GROUP = re.compile(r'^<g id="(\w+)" data-words="([^"]+)"( data-floor="no")?>\n(.*?)^</g>$', re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(r"@([a-z])\b")
_FALLBACK = "carton"
_NUM_CACHED = 2048

_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200" width="400" height="400"><defs>
<linearGradient id="bg" x1="0" y1="0" x2="0" y2="1">\
<stop offset="0" stop-color="{backdrop}"/><stop offset="1" stop-color="{floor}"/></linearGradient>
<linearGradient id="s" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#eef1f5"/>\
<stop offset=".5" stop-color="#b4bcc7"/><stop offset="1" stop-color="#8a94a2"/></linearGradient>
<linearGradient id="w" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#c99d6c"/>\
<stop offset="1" stop-color="#8e623a"/></linearGradient>
<linearGradient id="n" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#515b69"/>\
<stop offset="1" stop-color="#1f2630"/></linearGradient>
{body}
</defs><rect width="200" height="200" fill="url(#bg)"/>{shadow}
<g transform="translate(100 100) scale(.86) translate(-100 -102)">
{drawing}</g></svg>
"""
_SHADOW = '<ellipse cx="100" cy="161" rx="62" ry="7" fill="#10151f" opacity=".13"/>'
_GRADIENT = """\
<linearGradient id="b" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="@l"/>\
<stop offset=".5" stop-color="@m"/><stop offset="1" stop-color="@d"/></linearGradient>"""
_PRINT = '<pattern id="b" width="{0}" height="{0}" patternUnits="userSpaceOnUse">{1}</pattern>'
# Words of option values that name a print instead of a colour.
_PRINTS = {
    "rainbow": '<linearGradient id="b" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#ef6f6c"/>'
    '<stop offset=".3" stop-color="#f2b84b"/><stop offset=".5" stop-color="#7fc97f"/>'
    '<stop offset=".75" stop-color="#5aa9e6"/><stop offset="1" stop-color="#a06cd5"/></linearGradient>',
    "leopard": _PRINT.format(
        26,
        '<rect width="26" height="26" fill="#d3a566"/><g fill="#8a5a2b" stroke="#3b2a1c" stroke-width="2.4">'
        '<circle cx="6" cy="7" r="3.4"/><circle cx="19" cy="12" r="4"/><circle cx="9" cy="20" r="3"/></g>',
    ),
    "floral": _PRINT.format(
        34,
        '<rect width="34" height="34" fill="#f6e9e4"/><g fill="#d96c8a"><circle cx="9" cy="5" r="4"/>'
        '<circle cx="13" cy="9" r="4"/><circle cx="9" cy="13" r="4"/><circle cx="5" cy="9" r="4"/></g>'
        '<circle cx="9" cy="9" r="3" fill="#f2c14e"/><g fill="#6c8fd9"><circle cx="25" cy="20" r="3.4"/>'
        '<circle cx="28" cy="24" r="3.4"/><circle cx="25" cy="28" r="3.4"/><circle cx="22" cy="24" r="3.4"/></g>'
        '<path fill="#7aa874" d="m12 24 6-5-2 8z"/>',
    ),
    "marble": _PRINT.format(
        80,
        '<rect width="80" height="80" fill="#f1f1f2"/><g fill="none" stroke="#b9bec6" stroke-width="1.6">'
        '<path d="M0 20c20 4 30 24 50 22s20 18 30 20M20 0c4 16 22 18 30 42"/>'
        '<path stroke-width=".8" d="M0 56c18-6 24 14 44 24M60 0c-6 10 8 18 20 20"/></g>',
    ),
    "glitter": _PRINT.format(
        14,
        '<rect width="14" height="14" fill="@m"/><g fill="#fff" opacity=".8"><circle cx="3" cy="4" r="1"/>'
        '<circle cx="10" cy="2" r=".7"/><circle cx="8" cy="9" r="1.2"/><circle cx="2" cy="12" r=".8"/></g>',
    ),
}
_PRINTS["multicolor"] = _PRINTS["rainbow"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A drawing."""

    name: str
    words: tuple[str, ...]
    """What it stands for, singular or plural."""
    stands: bool
    """It stands on the floor and throws a shadow."""
    drawing: str
    """SVG elements on a canvas of 200 x 200, colours as place-holders."""


@functools.lru_cache(maxsize=1)
def load_shapes() -> dict[str, Shape]:
    """Read the drawings that come with the package."""
    shapes = {}
    for shelf in SHELVES:
        for name, words, hangs, drawing in _GROUP.findall((_FOLDER / f"{shelf}.svg").read_text(encoding="utf-8")):
            shapes[name] = Shape(name=name, words=tuple(words.split(",")), stands=not hangs, drawing=drawing)
    return shapes


@functools.lru_cache(maxsize=1)
def _word_pattern() -> tuple[re.Pattern[str], dict[str, str]]:
    owner = {word: shape.name for shape in load_shapes().values() for word in shape.words}
    longest_first = sorted(owner, key=len, reverse=True)
    return re.compile(r"\b(" + "|".join(map(re.escape, longest_first)) + r")(?:s|es)?\b"), owner


def shape_for(product: Product) -> Shape:
    """Return the drawing for a product.

    The search words decide, then the last part of the category path, the title, the category. In each text the longest
    known word counts, of equally long ones the last: names end with the thing itself.
    """
    pattern, owner = _word_pattern()
    leaf = product.product_category.rsplit("›", 1)[-1]
    for text in (product.query, leaf, product.title, product.category):
        words = pattern.findall(text.lower())
        if words:
            best = max(enumerate(words), key=lambda pair: (pair[1].count(" "), pair[0]))[1]
            return load_shapes()[owner[best]]
    return load_shapes()[_FALLBACK]


def colour_axis(product: Product) -> str | None:
    """Return the option axis that the picture follows: colours, else an axis whose first value names a colour."""
    for axis, values in product.options:
        if axis in COLOUR_AXES and values:
            return axis
    return next((axis for axis, values in product.options if values and named_colours(values[0])), None)


def swatch(value: str) -> str | None:
    """Return the ``#rrggbb`` of an option value, None if it names no colour."""
    colours = named_colours(value)
    return hex_of(colours[0]) if colours else None


def picture(product: Product, place: int = 0) -> str:
    """Return the SVG picture of a product.

    Args:
        product: What to draw.
        place: Which value of its `colour_axis` to show; out of range is the first.
    """
    values: Sequence[str] = dict(product.options).get(colour_axis(product) or "", ())
    value = values[place if 0 <= place < len(values) else 0] if values else ""
    return _draw(shape_for(product).name, value, zlib.crc32(product.asin.encode()))


@functools.lru_cache(maxsize=_NUM_CACHED)
def _draw(shape_name: str, value: str, draw: int) -> str:
    shape = load_shapes()[shape_name]
    shades = shades_for(named_colours(value), draw)
    body = next((fill for word, fill in _PRINTS.items() if word in value), _GRADIENT)
    return _FRAME.format(
        backdrop=shades.backdrop,
        floor=shades.floor,
        body=_fill_in(body, shades),
        shadow=_SHADOW if shape.stands else "",
        drawing=_fill_in(shape.drawing, shades),
    )


def _fill_in(text: str, shades: Shades) -> str:
    colours = {
        "m": shades.main,
        "l": shades.light,
        "p": shades.pale,
        "d": shades.dark,
        "k": shades.deep,
        "a": shades.accent,
    }
    return _TOKEN.sub(lambda match: colours[match[1]], text)
