"""The immutable part of a game: parsed problem, names and look-up tables."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent_envs.envs.alfworld.goal import Alternative, Fact, describe, expand, read_goal
from agent_envs.envs.alfworld.grammar_texts import GRAMMARS, Grammar
from agent_envs.envs.alfworld.pddl import STATE_PREDICATES, Arguments, PddlError, read_problem
from agent_envs.envs.alfworld.reach import FRIDGE_TYPES, KNIFE_TYPES, MICROWAVE_TYPES, Facts, Reach


class GameFileError(ValueError):
    """A game file is damaged, or holds a game that cannot be played; the message names the file and the reason."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Game:
    """A parsed game. Nothing in it changes, so all members of a group and all threads share one.

    Ids are the lower-case ids of the PDDL problem (`mug_bar__plus_01_dot_20_..`), names the shown ones (`mug 1`).

    Attributes:
        source: Path of the file, or what stands for it in messages.
        grammar: Wording and rules.
        task: Task sentence without the final full stop.
        digest: Hex digest of problem, sentence and grammar version.
        agent: Id of the agent.
        start: Location at which the agent starts.
        names: Shown name by id.
        listed: Shown name with its article by id (`a mug 1`).
        receptacles_at: Receptacles by location, in id order; has the start too.
        locations: Locations by receptacle, in order.
        moves: By location: `go to` command -> (receptacle, location it leads to).
        move_commands: By location: the sorted `go to` commands.
        openable: Receptacles with a door.
        pickupable: Objects the agent can take.
        toggleable: Objects with a switch.
        sliceable: Objects that can be sliced, in id order.
        knives: Objects that slice.
        accepts: Objects that fit, by receptacle.
        treatments: By receptacle: (verb, objects it can be used on), for clean, heat and cool.
        inner_items: By movable receptacle: the objects said to be in it, in id order.
        facts: Sorted facts of the start state.
        start_facts: The same as a set.
        start_held: Object in the agent's hands at the start, empty for none.
        contents: Objects by receptacle in the start state, in id order.
        goal: Per block of the goal its alternatives.
        goal_facts: All facts the goal speaks of.
    """

    source: str
    grammar: Grammar
    task: str
    digest: str
    agent: str
    start: str
    names: Mapping[str, str]
    listed: Mapping[str, str] = field(repr=False)
    receptacles_at: Mapping[str, tuple[str, ...]] = field(repr=False)
    locations: Mapping[str, tuple[str, ...]] = field(repr=False)
    moves: Mapping[str, Mapping[str, tuple[str, str]]] = field(repr=False)
    move_commands: Mapping[str, tuple[str, ...]] = field(repr=False)
    openable: frozenset[str] = field(repr=False)
    pickupable: frozenset[str] = field(repr=False)
    toggleable: frozenset[str] = field(repr=False)
    sliceable: tuple[str, ...] = field(repr=False)
    knives: frozenset[str] = field(repr=False)
    accepts: Mapping[str, frozenset[str]] = field(repr=False)
    treatments: Mapping[str, tuple[tuple[str, frozenset[str]], ...]] = field(repr=False)
    inner_items: Mapping[str, tuple[str, ...]] = field(repr=False)
    facts: tuple[Fact, ...] = field(repr=False)
    start_facts: frozenset[Fact] = field(repr=False)
    start_held: str
    contents: Mapping[str, tuple[str, ...]] = field(repr=False)
    goal: tuple[tuple[Alternative, ...], ...] = field(repr=False)
    goal_facts: frozenset[Fact] = field(repr=False)


def build_game(problem: str, task: str | None = None, *, grammar: str = "0.4", source: str = "<problem>") -> Game:
    """Builds a game from a PDDL problem.

    Args:
        problem: Text of the problem.
        task: Task sentence without full stop; None takes one that fits the goal.
        grammar: `"0.4"` or `"0.3"`.
        source: Name for messages.

    Returns:
        The game.

    Raises:
        GameFileError: The problem is damaged or its goal cannot be reached.
        ValueError: Unknown grammar.
    """
    if grammar not in GRAMMARS:
        raise ValueError(f"Unknown grammar {grammar!r}. Grammars: {', '.join(GRAMMARS)}.")
    texts = GRAMMARS[grammar]
    try:
        parsed = read_problem(problem)
        blocks = read_goal(parsed.goal)
        agent, start = _agent(parsed.facts)
        reach = Reach(parsed.facts, agent, texts.basin_types)
        goal = expand(blocks, reach)
    except PddlError as error:
        raise GameFileError(f"{source}: {error}. Fetch or generate the file again, or leave this game out.") from error
    facts = parsed.facts
    state = sorted((name, *row) for name in STATE_PREDICATES for row in facts.get(name, ()))
    sentence = describe(blocks) if task is None else task
    identity = "\0".join((grammar, sentence, problem)).encode("utf-8", "backslashreplace")
    names = number_names(id_ for rows in facts.values() for row in rows for id_ in row)
    places = sorted((place, receptacle) for receptacle, place in facts.get("receptacleatlocation", ()))
    moves = _moves(facts, names, start)
    return Game(
        source=source,
        grammar=texts,
        task=sentence,
        digest=hashlib.blake2b(identity, digest_size=16).hexdigest(),
        agent=agent,
        start=start,
        names=names,
        listed={id_: f"a {name}" for id_, name in names.items()},
        receptacles_at={start: ()} | _grouped(places),
        locations=_grouped((receptacle, place) for place, receptacle in places),
        moves=moves,
        move_commands={place: tuple(sorted(commands)) for place, commands in moves.items()},
        openable=_having(facts, "openable"),
        pickupable=_having(facts, "pickupable"),
        toggleable=_having(facts, "toggleable"),
        sliceable=tuple(sorted(_having(facts, "sliceable"))),
        knives=frozenset(item for item, kind in facts.get("objecttype", ()) if kind in KNIFE_TYPES),
        accepts=reach.accepts,
        treatments=_treatments(facts, texts),
        inner_items=_inner_items(facts),
        facts=tuple(state),
        start_facts=frozenset(state),
        start_held=next((row[1] for row in facts.get("holds", ())), ""),
        contents=_grouped((receptacle, item) for item, receptacle in facts.get("inreceptacle", ())),
        goal=goal,
        goal_facts=frozenset(fact for block in goal for alternative in block for fact in alternative),
    )


def number_names(ids: Iterable[str]) -> dict[str, str]:
    """Gives every id its shown name: class word and a number; the first id of a class gets the highest number.

    Ids that were not made by ALFWorld's naming rule (`agent1`) keep their text, followed by one blank.
    """
    ordered = sorted(set(ids))
    words = {id_: id_.split("_bar_", 1)[0] + "basin" * ("basin" in id_) for id_ in ordered if "_bar_" in id_}
    left = Counter(words.values())
    names = {}
    for id_ in ordered:
        word = words.get(id_)
        if word is None:
            names[id_] = f"{id_} "
        else:
            names[id_] = f"{word} {left[word]}"
            left[word] -= 1
    return names


def _agent(facts: Facts) -> tuple[str, str]:
    """Returns the agent and its start location."""
    starts = facts.get("atlocation", frozenset())
    if len(starts) != 1:
        raise PddlError(f"expected one fact (atLocation agent location), got {len(starts)}")
    held = facts.get("holds", frozenset())
    if len(held) > 1 or bool(held) != bool(facts.get("holdsany")):
        raise PddlError("at most one object can be held at the start, with holds and holdsAny")
    agent, start = next(iter(starts))
    return agent, start


def _having(facts: Facts, predicate: str) -> frozenset[str]:
    """Ids with a property such as `openable`."""
    return frozenset(row[0] for row in facts.get(predicate, ()))


def _grouped(pairs: Iterable[Arguments]) -> dict[str, tuple[str, ...]]:
    """Groups pairs by their first part; keys and groups come out sorted."""
    groups: dict[str, list[str]] = {}
    for key, value in sorted(pairs):
        groups.setdefault(key, []).append(value)
    return {key: tuple(group) for key, group in groups.items()}


def _moves(facts: Facts, names: Mapping[str, str], start: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Lists by place where `go to` leads from there; of two ways with one name the first counts."""
    ways = [(f"go to {names[row[0]]}", row[0], row[1]) for row in sorted(facts.get("receptacleatlocation", ()))]
    ways.reverse()  # The first of two equal commands is entered last, and stays.
    return {
        here: {command: (receptacle, place) for command, receptacle, place in ways if place != here}
        for here in {start, *(place for _, _, place in ways)}
    }


def _inner_items(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Objects in movable receptacles; an object inside itself is left out, as the official text does."""
    pairs = [(outer, item) for item, outer in facts.get("inreceptacleobject", ()) if item != outer]
    inner = _grouped(pairs)
    return {outer: inner.get(outer, ()) for outer in sorted(_having(facts, "isreceptacleobject"))}


def _treatments(facts: Facts, texts: Grammar) -> dict[str, tuple[tuple[str, frozenset[str]], ...]]:
    """Verbs an appliance offers, with the objects each can be used on."""
    appliances = (
        ("clean", texts.basin_types, _having(facts, "cleanable")),
        ("heat", MICROWAVE_TYPES, _having(facts, "heatable")),
        ("cool", FRIDGE_TYPES, _having(facts, "coolable")),
    )
    found: dict[str, tuple[tuple[str, frozenset[str]], ...]] = {}
    for verb, types, items in appliances:
        for receptacle in {receptacle for receptacle, kind in facts.get("receptacletype", ()) if kind in types}:
            found[receptacle] = (*found.get(receptacle, ()), (verb, items))
    return found
