"""The changing part of a game, kept as its difference from the start."""

from __future__ import annotations

from itertools import chain, filterfalse
from typing import Any

from agent_envs.envs.alfworld.game import Game
from agent_envs.envs.alfworld.goal import Fact
from agent_envs.envs.alfworld.pddl import STATE_PREDICATES


class State:
    """Facts that differ from the start, and what follows from them.

    Args:
        game: The game.
        gained: Facts that hold now and did not hold at the start.
        lost: Facts of the start that do not hold now.
        left: Pairs (object, receptacle) of objects taken out and not put back; only the wording of `look` reads it.

    Attributes:
        location: Id of the place the agent is at.
        held: Id of the object in the agent's hands, empty for none.
        contents: Objects by receptacle, in id order.
        goal_touched: A fact the goal speaks of may have changed; whoever checks the goal clears it.
    """

    __slots__ = ("contents", "gained", "game", "goal_touched", "held", "left", "location", "lost")

    def __init__(self, game: Game, gained: set[Fact], lost: set[Fact], left: set[tuple[str, ...]]) -> None:
        """Derives place, hands and contents from the facts."""
        self.game, self.gained, self.lost, self.left = game, gained, lost, left
        self.location = next((fact[2] for fact in gained if fact[0] == "atlocation"), game.start)
        self.held = next((fact[2] for fact in gained if fact[0] == "holds"), "")
        if not self.held and self.holds(("holds", game.agent, game.start_held)):
            self.held = game.start_held
        self.contents = dict(game.contents)
        for predicate, item, *receptacle in lost:
            if predicate == "inreceptacle":
                self.take_out(item, *receptacle)
        for predicate, item, *receptacle in gained:
            if predicate == "inreceptacle":
                self.put_in(item, *receptacle)
        self.goal_touched = True

    def copy(self) -> State:
        """Returns an independent state with the same content."""
        return State(self.game, self.gained.copy(), self.lost.copy(), self.left.copy())

    def holds(self, fact: Fact) -> bool:
        """Returns whether a fact such as `("opened", "drawer_bar_1")` is true."""
        return fact in self.gained or (fact in self.game.start_facts and fact not in self.lost)

    def add(self, fact: Fact) -> None:
        """Makes a fact true."""
        if fact in self.game.start_facts:
            self.lost.discard(fact)
        else:
            self.gained.add(fact)
        if fact in self.game.goal_facts:
            self.goal_touched = True

    def discard(self, fact: Fact) -> None:
        """Makes a fact false."""
        if fact in self.game.start_facts:
            self.lost.add(fact)
        else:
            self.gained.discard(fact)
        if fact in self.game.goal_facts:
            self.goal_touched = True

    def take_out(self, item: str, receptacle: str) -> None:
        """Removes an object from the contents of a receptacle."""
        self.contents[receptacle] = tuple(other for other in self.contents[receptacle] if other != item)

    def put_in(self, item: str, receptacle: str) -> None:
        """Adds an object to the contents of a receptacle; one that lay in two places may be there already."""
        contents = self.contents.get(receptacle, ())
        if item not in contents:
            self.contents[receptacle] = tuple(sorted((*contents, item)))

    def goal_holds(self) -> bool:
        """Returns whether every block of the goal has an alternative with all its facts true."""
        return all(any(all(map(self.holds, facts)) for facts in alternatives) for alternatives in self.game.goal)

    def facts(self) -> list[list[str]]:
        """Returns all facts that commands can change, sorted, as a new JSON value."""
        kept = filterfalse(self.lost.__contains__, self.game.facts)
        return [list(fact) for fact in sorted(chain(kept, self.gained))]

    def changes(self) -> dict[str, list[list[str]]]:
        """Returns the difference from the start as a new JSON value."""
        return {"gained": [list(fact) for fact in sorted(self.gained)], "lost": [list(f) for f in sorted(self.lost)]}

    def to_json(self) -> dict[str, Any]:
        """Returns everything that is needed to continue from here."""
        return {"game": self.game.digest, **self.changes(), "left": [list(pair) for pair in sorted(self.left)]}

    @classmethod
    def from_json(cls, game: Game, data: dict[str, Any]) -> State:
        """Reads what `to_json` returned.

        Raises:
            ValueError: The data is damaged or belongs to another game.
        """
        try:
            digest = data["game"]
            gained, lost, left = ({tuple(row) for row in data[key]} for key in ("gained", "lost", "left"))
            sound = _is_sound(game, gained, lost, left)
        except (TypeError, KeyError, IndexError) as error:
            raise ValueError(f"The snapshot is damaged ({error!r}). Pass what snapshot() returned.") from error
        if digest != game.digest:
            raise ValueError(f"The snapshot belongs to game {digest}, this is {game.digest} ({game.source}).")
        if not sound:
            raise ValueError("The snapshot is damaged (impossible facts). Pass what snapshot() returned.")
        return cls(game, gained, lost, left)


def _is_sound(game: Game, gained: set[Fact], lost: set[Fact], left: set[tuple[str, ...]]) -> bool:
    """Whether a difference fits the game: known facts, one place, at most one held object."""
    facts = (game.start_facts - lost) | gained
    known = all(STATE_PREDICATES[fact[0]] == len(fact) - 1 and game.names.keys() >= {*fact[1:]} for fact in gained)
    return (
        known
        and lost <= game.start_facts
        and not gained & game.start_facts
        and all(len(pair) == 2 and game.names.keys() >= {*pair} for pair in left)
        and [fact[2] in game.moves for fact in facts if fact[0] == "atlocation"] == [True]
        and sum(fact[0] == "holds" for fact in facts) == sum(fact[0] == "holdsany" for fact in facts) <= 1
    )
