"""Questions over the bundled Factbook passages: one or two facts about countries and territories.

Every fact is read from the line of a passage that states it, so the answer always stands in the gold passage. Facts
that several countries share ("Mount Everest", "euros") are not asked in the reverse direction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_envs.envs.search_qa.questions import Question, keep_unambiguous, with_plain_forms

PLACE = "country or territory"


@dataclass(kw_only=True, slots=True)
class Country:
    """What the passages of one profile say."""

    code: str
    name: str
    is_sovereign: bool = False
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of fact to its accepted spellings."""
    passage_of: dict[str, str] = field(default_factory=dict)
    """Kind of fact to the id of the passage that states it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Accepted spellings of the country's name."""
        short = self.name.removeprefix("The ")
        return with_plain_forms(dict.fromkeys((self.name, short, *self.facts.get("official", ()))))


def _main(text: str) -> tuple[str, ...]:
    """``Suva (on Viti Levu)`` gives Suva; several capitals or a note give nothing."""
    if "," in text.replace("Washington, D.C.", "").split("(")[0] or ";" in text or text.count("(") > 1:
        return ()
    name, _, rest = text.partition(" (")
    alias = re.fullmatch(r"(?:aka )?([A-Z][\w' -]+)\)", rest)
    return (name.strip(), *([alias[1]] if alias else []))


def _point(text: str) -> tuple[str, ...]:
    match = re.match(r"([A-ZÀ-Ý][^\d]*?)\s+-?\d[\d,.]*(?: m)?(?:$|[ ;(])", text)
    if not match or re.match(r"unnamed|ocean-side|highest", match[1], re.I):
        return ()
    name = re.split(r" \(| on | in | near | - |, ", match[1])[0].strip()
    alias = re.search(r"\((?:also known as |aka )?([A-Z][\w' -]+)\)", match[1])
    return (name, *([alias[1]] if alias else []))


def _code(text: str) -> tuple[str, ...]:
    match = re.fullmatch(r"(\.[a-z]{2})(?:$|;.*| .*)", text)
    return (match[1], match[1][1:]) if match else ()


def _currency(text: str) -> tuple[str, ...]:
    match = re.fullmatch(r"([^()]+) \(([A-Z]{3})\)", text)
    if not match:
        return ()
    name = match[1].strip()
    regular = r"(dollar|euro|franc|pound|peso|dinar|rupee|dirham|ruble|shilling|guilder|escudo|real|riyal|rial)s$"
    single = re.sub(regular, r"\1", name)
    return tuple(dict.fromkeys((name, single, match[2])))


def _title(text: str) -> tuple[str, ...]:
    match = re.fullmatch(r'"([^"]+)"(?: \(([^()]+)\))?', text)
    return tuple(part.strip() for part in match.groups() if part) if match else ()


def _year(text: str) -> tuple[str, ...]:
    years = set(re.findall(r"\b\d{4}\b", text))
    return (years.pop(),) if len(years) == 1 and re.match(r"\d{1,2} [A-Z][a-z]+ \d{4} \(", text) else ()


def _single_border(text: str) -> tuple[str, ...]:
    match = re.fullmatch(r"([A-Z][^;\d]+?) [\d,.]+ km", text)
    return (match[1],) if match else ()


def _word(text: str) -> tuple[str, ...]:
    return (text,) if re.fullmatch(r"[\w' -]+", text) else ()


# Label of the line -> kind of fact, reader.
_READERS: dict[str, tuple[str, Callable[[str], tuple[str, ...]]]] = {
    "Official name": ("official", _word),
    "Capital": ("capital", _main),
    "Highest point": ("highest", _point),
    "Internet country code": ("code", _code),
    "Currency": ("currency", _currency),
    "National anthem": ("anthem", _title),
    "Independence": ("independence", _year),
    "Border countries": ("neighbour", _single_border),
    "Aircraft registration prefix": ("prefix", _word),
    "Nationality": ("nationality", _word),
}
_LABELS = {kind: label for label, (kind, _) in _READERS.items()}
# Kind of fact -> question about it, and how another question names the country by it.
_ASK = {
    "capital": "What is the capital of {}?",
    "highest": "What is the highest point of {}?",
    "code": "What is the internet country code of {}?",
    "currency": "What is the currency of {}?",
    "anthem": "What is the title of the national anthem of {}?",
    "independence": "In which year did {} become independent?",
    "neighbour": "Which is the only country that shares a land border with {}?",
    "prefix": "What is the aircraft registration prefix of {}?",
}
_NAME_BY = {
    "capital": f"the {PLACE} whose capital is {{}}",
    "highest": f"the {PLACE} whose highest point is {{}}",
    "code": f"the {PLACE} whose internet country code is {{}}",
    "anthem": f'the {PLACE} whose national anthem is "{{}}"',
    "prefix": f"the {PLACE} whose aircraft registration prefix is {{}}",
}
# Second facts asked of a country that is named by its first: pairs that lie in different passages.
_SECOND = {
    "capital": ("highest", "code", "currency"),
    "highest": ("capital", "code", "currency"),
    "code": ("capital", "highest", "independence"),
    "anthem": ("highest", "currency"),
    "prefix": ("capital",),
}
_SECOND_OF_NEIGHBOUR = ("capital", "code", "currency", "highest")


def read_countries(passages: Mapping[str, str]) -> dict[str, Country]:
    """Return the countries of Factbook passages (id to contents) by their code."""
    countries: dict[str, Country] = {}
    for passage_id, contents in passages.items():
        source, code, topic = passage_id.split(":")
        assert source == "factbook"
        title, *lines = contents.split("\n")
        name = title.strip('"').removesuffix(f": {topic}")
        country = countries.setdefault(code, Country(code=code, name=name))
        for line in lines:
            label, _, value = line.partition(": ")
            kind, reader = _READERS.get(label, ("", None))
            answers = with_plain_forms(reader(value)) if reader else ()
            if answers:
                country.facts[kind], country.passage_of[kind] = answers, passage_id
            if label == "Independence":
                country.is_sovereign = not value.startswith("none")
    return countries


def shared_facts(countries: Sequence[Country]) -> Counter[tuple[str, str]]:
    """Count how many countries have each (kind, spelling)."""
    return Counter((kind, answer) for country in countries for kind, facts in country.facts.items() for answer in facts)


def factbook_questions(passages: Mapping[str, str]) -> list[Question]:
    """Return all questions: sources ``factbook`` (one hop) and ``factbook_two_hop``."""
    countries = list(read_countries(passages).values())
    by_name = {name: country for country in countries for name in (country.name, country.name.removeprefix("The "))}
    shared = shared_facts(countries)
    questions: list[Question] = []
    for country in countries:
        for kind in country.facts:
            if kind in _ASK:
                questions.append(_ask(country, kind))
            if kind == "anthem" and not country.is_sovereign:
                continue  # territories repeat the anthem of another country, often in another spelling
            if kind in _NAME_BY and shared[kind, country.facts[kind][0]] == 1:
                questions += _by_fact(country, kind)
        neighbour = by_name.get(country.facts.get("neighbour", ("",))[0])
        if neighbour is not None:
            questions += [
                _second(country, "neighbour", neighbour, kind, f"the only country that borders {country.name}")
                for kind in _SECOND_OF_NEIGHBOUR
                if kind in neighbour.facts
            ]
    return keep_unambiguous(questions)


def query_for(country: Country, kind: str, *, with_name: bool = True) -> str:
    """Return a query that finds the passage with a fact of a country, by the country's name or by the fact itself."""
    topic = country.passage_of[kind].rpartition(":")[2]
    return f"{country.name if with_name else country.facts[kind][0]} {topic} {_LABELS[kind]}"


def _ask(country: Country, kind: str) -> Question:
    return Question(
        id=f"{country.code}-{kind}",
        source="factbook",
        text=_ASK[kind].format(country.name),
        answers=country.facts[kind],
        num_hops=1,
        gold=(country.passage_of[kind],),
        queries=(query_for(country, kind),),
    )


def _by_fact(country: Country, kind: str) -> list[Question]:
    """Ask for the country behind a fact that no other has, and for other facts of it."""
    place = _NAME_BY[kind].format(country.facts[kind][0])
    back = Question(
        id=f"{country.code}-by-{kind}",
        source="factbook",
        text=f"Which is {place}?",
        answers=country.names,
        num_hops=1,
        gold=(country.passage_of[kind],),
        queries=(query_for(country, kind, with_name=False),),
    )
    return [
        back,
        *(_second(country, kind, country, second, place) for second in _SECOND[kind] if second in country.facts),
    ]


def _second(first: Country, kind: str, second: Country, asked: str, place: str) -> Question:
    return Question(
        id=f"{first.code}-{kind}-{asked}",
        source="factbook_two_hop",
        text=_ASK[asked].format(place),
        answers=second.facts[asked],
        num_hops=2,
        gold=(first.passage_of[kind], second.passage_of[asked]),
        queries=(query_for(first, kind), query_for(second, asked)),
    )
