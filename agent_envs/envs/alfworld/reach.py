"""Which facts the commands of a game can bring about when nothing is ever undone.

An upper bound: what is missing here is impossible. Used to reject goals that cannot be reached, and to keep the
alternatives of a goal few.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cached_property
from typing import TypeAlias

from agent_envs.envs.alfworld.pddl import Arguments

Facts: TypeAlias = Mapping[str, Set[Arguments]]

KNIFE_TYPES = frozenset({"knifetype", "butterknifetype"})
MICROWAVE_TYPES = frozenset({"microwavetype"})
FRIDGE_TYPES = frozenset({"fridgetype"})


class Reach:
    """Reachable facts of one problem.

    Args:
        facts: Facts of `:init`, by predicate.
        agent: Id of the agent.
        basin_types: Receptacle types in which objects are cleaned.
    """

    def __init__(self, facts: Facts, agent: str, basin_types: frozenset[str]) -> None:
        self._facts, self._agent, self._basin_types = facts, agent, basin_types
        self._places: dict[str, set[str]] = {}
        for receptacle, place in facts.get("receptacleatlocation", ()):
            self._places.setdefault(receptacle, set()).add(place)

    def relation(self, predicate: str) -> Set[Arguments]:
        """Returns the arguments of all facts of `predicate` that hold at the start or that commands can make true."""
        return self._facts.get(predicate, frozenset()) | self._reached(predicate)

    @cached_property
    def accepts(self) -> dict[str, frozenset[str]]:
        """By receptacle the objects that its type may hold."""
        items: dict[str, set[str]] = {}
        for item, kind in self._facts.get("objecttype", ()):
            items.setdefault(kind, set()).add(item)
        by_type: dict[str, set[str]] = {}
        for holder, kind in self._facts.get("cancontain", ()):
            by_type.setdefault(holder, set()).update(items.get(kind, ()))
        found: dict[str, frozenset[str]] = {}
        for receptacle, kind in self._facts.get("receptacletype", ()):
            found[receptacle] = found.get(receptacle, frozenset()) | by_type.get(kind, set())
        return found

    def _reached(self, predicate: str) -> Set[Arguments]:
        match predicate:
            case "atlocation":
                return {(self._agent, place) for places in self._places.values() for place in places}
            case "opened":
                return {(receptacle,) for receptacle in self._having("openable") & self._places.keys()}
            case "holds":
                return {(self._agent, item) for item in self._movable}
            case "holdsany":
                return {(self._agent,)} if self._movable else set()
            case "inreceptacle":
                return self._placed
            case "objectatlocation":
                return {(item, place) for item, receptacle in self._placed for place in self._places[receptacle]}
            case "isclean":
                return self._treated("cleanable", self._basin_types)
            case "ishot":
                return self._treated("heatable", MICROWAVE_TYPES)
            case "iscool":
                return self._treated("coolable", FRIDGE_TYPES)
            case "istoggled":
                lodged = {item for item, receptacle in self.relation("inreceptacle") if receptacle in self._places}
                return {(item,) for item in lodged & self._having("toggleable")}
            case "issliced":
                return self._sliced()
        return frozenset()

    def _having(self, predicate: str) -> set[str]:
        """Ids with a property such as `openable`."""
        return {arguments[0] for arguments in self._facts.get(predicate, ())}

    @cached_property
    def _movable(self) -> set[str]:
        """Objects the agent can get into its hands."""
        lodged = {item for item, receptacle in self._facts.get("inreceptacle", ()) if receptacle in self._places}
        return lodged & self._having("pickupable") | {item for _, item in self._facts.get("holds", ())}

    @cached_property
    def _placed(self) -> set[Arguments]:
        """Pairs of an object and a receptacle the agent can put it into."""
        accepts = self.accepts.items()
        return {(item, r) for r, items in accepts if r in self._places for item in items & self._movable}

    def _treated(self, needs: str, appliance_types: frozenset[str]) -> set[Arguments]:
        """Objects that can be brought to an appliance of these types."""
        types = self._facts.get("receptacletype", ())
        present = any(receptacle in self._places and kind in appliance_types for receptacle, kind in types)
        return {(item,) for item in self._movable & self._having(needs)} if present else set()

    def _sliced(self) -> set[Arguments]:
        """Objects that lie at a place the agent can be at, where a knife can be had at all."""
        if not any(kind in KNIFE_TYPES and item in self._movable for item, kind in self._facts.get("objecttype", ())):
            return set()
        visited = {place for _, place in self.relation("atlocation")}
        lying = {item for item, place in self.relation("objectatlocation") if place in visited}
        return {(item,) for item in lying & self._having("sliceable")}
