"""A constructive oracle: knows the whole state, fetches, treats and places what the goal asks for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.goal import Fact

_MAX_WAYS = 20_000
_NUM_COMPARED = 32
_TREATMENTS = {"isclean": "clean", "ishot": "heat", "iscool": "cool"}


class OracleError(RuntimeError):
    """No plain plan wins from this state."""


class _Stuck(Exception):
    """This way to the goal does not work out."""


def plan(engine: Engine) -> list[str]:
    """Returns commands that win from the present state of `engine`, which stays as it is.

    The ways to the goal are tried by the number of facts still missing, and played on copies, so that what is returned
    has won: the shortest plan among the first few ways that do. Empty if the goal holds already.

    Raises:
        OracleError: No plain plan wins, as when the held object fits into no receptacle and the goal needs free hands.
    """
    ways = [
        sorted({fact for alternative in way for fact in alternative})
        for way in islice(product(*engine.game.goal), _MAX_WAYS)
    ]
    ways.sort(key=lambda way: sum(not engine.state.holds(fact) for fact in way))
    plans: list[list[str]] = []
    for index, way in enumerate(ways):
        if plans and index >= _NUM_COMPARED:
            break
        walk = _Walk(engine.clone())
        try:
            walk.achieve(way)
        except _Stuck:
            continue
        if walk.engine.won:
            plans.append(walk.commands)
    if not plans:
        raise OracleError(f"No plain plan wins {engine.game.source} from this state.")
    return min(plans, key=len)


class _Walk:
    """Plays on a copy of the game and notes the commands."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.game = engine, engine.game
        self.commands: list[str] = []

    def achieve(self, way: Sequence[Fact]) -> None:
        """Makes all facts of one way to the goal true, those that are easily lost last."""
        missing = [fact for fact in way if not self.engine.state.holds(fact)]
        for fact in missing:
            if fact[0] == "issliced":
                self._slice(fact[1])
        homes = {fact[1]: fact[2] for fact in way if fact[0] == "inreceptacle"}
        states: dict[str, list[str]] = {}
        for predicate, item, *_ in missing:
            if predicate in _TREATMENTS:
                states.setdefault(item, []).append(predicate)
        to_place = {fact[1] for fact in missing if fact[0] == "inreceptacle"}
        to_hold = [fact[2] for fact in way if fact[0] == "holds"]
        held = self.engine.state.held
        for item in sorted(to_place | (states.keys() - set(to_hold)), key=lambda item: (item != held, item)):
            self._fetch(item)
            self._treat(item, states.get(item, ()))
            if item in homes:
                self._place(homes[item])
        for item in to_hold:
            self._fetch(item)
            self._treat(item, states.get(item, ()))
        for predicate, *arguments in missing:
            if predicate == "istoggled":
                self._go(self._holder(arguments[0]))
                self._do(f"use {self.game.names[arguments[0]]}")
            elif predicate == "opened":
                self._open(arguments[0])
        for predicate, *arguments in way:
            if predicate == "atlocation" and arguments[1] != self.engine.state.location:
                self._go(next(iter(self.game.receptacles_at.get(arguments[1], ())), ""))

    def _do(self, command: str) -> None:
        if self.engine.won:
            return
        if not self.engine.step(command).admitted:
            raise _Stuck(command)
        self.commands.append(command)

    def _go(self, receptacle: str) -> None:
        places = self.game.locations.get(receptacle, ())
        if self.engine.state.location not in places:
            self._do(f"go to {self.game.names.get(receptacle, '')}")

    def _open(self, receptacle: str) -> None:
        self._go(receptacle)
        if receptacle in self.game.openable and not self.engine.state.holds(("opened", receptacle)):
            self._do(f"open {self.game.names[receptacle]}")

    def _holder(self, item: str) -> str:
        """Returns a receptacle with the object in it, one at this place if there is any."""
        holders = [r for r in self.game.locations if item in self.engine.state.contents.get(r, ())]
        if not holders:
            raise _Stuck(item)
        return min(holders, key=lambda receptacle: self.engine.state.location not in self.game.locations[receptacle])

    def _fetch(self, item: str) -> None:
        if self.engine.state.held == item:
            return
        if self.engine.state.held:
            self._drop()
        holder = self._holder(item)
        self._open(holder)
        self._do(f"take {self.game.names[item]} from {self.game.names[holder]}")

    def _drop(self) -> None:
        """Puts the held object into a receptacle that takes it, one at this place if there is any."""
        fitting = [r for r in self.game.locations if self.engine.state.held in self.game.accepts.get(r, ())]
        if not fitting:
            raise _Stuck(self.engine.state.held)
        self._place(
            min(fitting, key=lambda receptacle: self.engine.state.location not in self.game.locations[receptacle])
        )

    def _place(self, receptacle: str) -> None:
        self._open(receptacle)
        names = self.game.names
        self._do(self.game.grammar.place_command % (names.get(self.engine.state.held, ""), names[receptacle]))

    def _treat(self, item: str, predicates: Sequence[str]) -> None:
        for predicate in predicates:
            verb = _TREATMENTS[predicate]
            appliances = (r for r, verbs in sorted(self.game.treatments.items()) if any(v == verb for v, _ in verbs))
            appliance = next((r for r in appliances if r in self.game.locations), "")
            self._go(appliance)
            self._do(f"{verb} {self.game.names[item]} with {self.game.names.get(appliance, '')}")

    def _slice(self, item: str) -> None:
        """Fetches a knife and slices the object where it lies."""
        for knife in sorted(self.game.knives - {item}):
            if knife == self.engine.state.held or any(
                knife in self.engine.state.contents.get(r, ()) for r in self.game.locations
            ):
                self._fetch(knife)
                break
        for receptacle, places in self.game.locations.items():
            if any(self.engine.state.holds(("objectatlocation", item, place)) for place in places):
                self._go(receptacle)
                break
        self._do(f"slice {self.game.names[item]} with {self.game.names.get(self.engine.state.held, '')}")
