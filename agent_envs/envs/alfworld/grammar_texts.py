"""What differs between the text releases of ALFWorld, and the list form both share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_HELP_ROWS = (
    ("look:", "look around your current location"),
    ("inventory:", "check your current inventory"),
    ("go to (receptacle):", "move to a receptacle"),
    ("open (receptacle):", "open a receptacle"),
    ("close (receptacle):", "close a receptacle"),
    ("take (object) from (receptacle):", "take an object from a receptacle"),
    ("move (object) to (receptacle):", "place an object in or on a receptacle"),
    ("examine (something):", "examine a receptacle or an object"),
    ("use (object):", "use an object"),
    ("heat (object) with (receptacle):", "heat an object using a receptacle"),
    ("clean (object) with (receptacle):", "clean an object using a receptacle"),
    ("cool (object) with (receptacle):", "cool an object using a receptacle"),
    ("slice (object) with (object):", "slice an object using a sharp object"),
)


def _help_text() -> str:
    """Builds the answer to `help`; the row of `move` is the only one the release does not pad to 34 columns."""
    rows = (pattern + "  " if pattern[:4] == "move" else pattern.ljust(34) for pattern, _ in _HELP_ROWS)
    lines = (f"  {row}{description}\n" for row, (_, description) in zip(rows, _HELP_ROWS, strict=True))
    return "Available commands:\n" + "".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grammar:
    """Wording and rules of one text release.

    Attributes:
        version: `"0.4"` or `"0.3"`.
        place_command: %-template of the command that puts an object down; object and receptacle.
        place_feedback: %-template of its answer.
        arrive_names_location: The answer to `go to` names the location (`loc 15`), not the receptacle.
        help_text: Answer to `help`, empty where the command does not exist.
        basin_types: Receptacle types in which objects are cleaned.
    """

    version: str
    place_command: str
    place_feedback: str
    arrive_names_location: bool
    help_text: str
    basin_types: frozenset[str]


GRAMMARS = {
    "0.4": Grammar(
        version="0.4",
        place_command="move %s to %s",
        place_feedback="You move the %s to the %s.",
        arrive_names_location=False,
        help_text=_help_text(),
        basin_types=frozenset({"sinkbasintype"}),
    ),
    "0.3": Grammar(
        version="0.3",
        place_command="put %s in/on %s",
        place_feedback="You put the %s in/on the %s.",
        arrive_names_location=True,
        help_text="",
        basin_types=frozenset({"sinktype", "sinkbasintype"}),
    ),
}


def enumerate_items(items: Sequence[str]) -> str:
    """Returns `nothing`, `x`, `x, and y` or `x, y, and z`."""
    if not items:
        return "nothing"
    if len(items) == 1:
        return items[0]
    return ", ".join(items[:-1]) + ", and " + items[-1]
