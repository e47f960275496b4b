"""The ALFWorld text engine: state, commands, answers.

Gives the same texts, command lists and results as the TextWorld engine with ALFWorld's PDDL domain and grammar. A
command counts only if, stripped of outer blanks, it equals one of the currently possible commands letter for letter;
every other text is answered with "Nothing happens." and changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from agent_envs.envs.alfworld.game import Game
from agent_envs.envs.alfworld.grammar_texts import enumerate_items
from agent_envs.envs.alfworld.state import State

REFUSED = "Nothing happens."
_WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
_PUT = re.compile(r"(?:put (.+) (?:in/on|in|on)|move (.+) to) (.+)")
# What `examine` says of a held object: the first row whose facts all hold.
_CONDITIONS = (
    (("issliced", "isclean", "ishot"), "This is a hot and clean sliced %s."),
    (("issliced", "isclean", "iscool"), "This is a cool and clean sliced %s."),
    (("issliced", "isclean"), "This is a clean sliced %s."),
    (("issliced", "ishot"), "This is a hot sliced %s."),
    (("issliced", "iscool"), "This is a cool sliced %s."),
    (("isclean", "ishot"), "This is a hot and clean %s."),
    (("isclean", "iscool"), "This is a cool and clean %s."),
    (("ishot",), "This is a hot %s."),
    (("isclean",), "This is a clean %s."),
    (("iscool",), "This is a cold %s."),
)
# Facts that a treatment adds and removes.
_EFFECTS = {"clean": ("isclean", None), "heat": ("ishot", "iscool"), "cool": ("iscool", "ishot")}


class StepResult(NamedTuple):
    """What one command led to.

    Attributes:
        feedback: Text of the engine.
        score: 1 while the goal holds, else 0; also the reward of the official engine.
        done: Same as `won`; the engine goes on accepting commands.
        won: The goal holds now.
        admitted: The command was possible.
    """

    feedback: str
    score: int
    done: bool
    won: bool
    admitted: bool


def resolve_alias(game: Game, command: str) -> str:
    """Returns a command that puts something down in the words of the game's grammar, any other one unchanged."""
    match = _PUT.fullmatch(command)
    return game.grammar.place_command % (match[1] or match[2], match[3]) if match else command


class Engine:
    """One running game. Not to be shared between threads; the `Game` may be.

    Args:
        game: The game.
        put_alias: Accept `put X in/on Y`, `put X in Y`, `put X on Y` and `move X to Y` alike, whatever the grammar.
    """

    __slots__ = ("_admissible", "_options", "_state", "_won", "game", "put_alias")

    def __init__(self, game: Game, *, put_alias: bool = False) -> None:
        """Starts the game."""
        self.game = game
        self.put_alias = put_alias
        self._enter(State(game, set(), set(), set()))

    def _enter(self, state: State) -> None:
        """Continues from a state."""
        self._state = state
        self._options: dict[str, _Option] | None = None
        self._admissible: list[str] = []
        self._won = False
        self._check_goal()

    def _check_goal(self) -> None:
        state = self._state
        if state.goal_touched:
            state.goal_touched = False
            self._won = state.goal_holds()

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        return self._won

    @property
    def state(self) -> State:
        """The present state; to be read, not changed."""
        return self._state

    def reset(self) -> str:
        """Goes back to the start and returns the first text."""
        game = self.game
        self._enter(State(game, set(), set(), set()))
        if game.receptacles_at[game.start]:
            scene = self._look("", "")
        else:
            scene = _middle_of_room([game.listed[r] for r, places in game.locations.items() for _ in places])
        return f"{_WELCOME}\n\n{scene}\n\nYour task is to: {game.task}."

    def step(self, command: str) -> StepResult:
        """Carries out one command.

        Args:
            command: Any text; only outer blanks are ignored.

        Returns:
            The answer, and whether the goal holds after the command.

        Raises:
            TypeError: The command is no string.
        """
        if not isinstance(command, str):
            raise TypeError(f"A command must be a str, got {type(command).__name__}. Pass a text such as 'look'.")
        command = command.strip()
        if self.put_alias:
            command = resolve_alias(self.game, command)
        if self._options is None:
            self._options = self._list_options()
        option = self._options.get(command)
        if option is None:
            move = self.game.moves[self._state.location].get(command)
            if move is None:
                return StepResult(REFUSED, int(self._won), self._won, self._won, False)
            option = (Engine._go, *move)
        feedback = option[0](self, option[1], option[2])
        self._check_goal()
        return StepResult(feedback, int(self._won), self._won, self._won, True)

    def admissible(self) -> list[str]:
        """Returns all possible commands in the official order, as a new list; `help` is among them."""
        if self._options is None:
            self._options = self._list_options()
        return self._admissible.copy()

    def facts(self) -> list[list[str]]:
        """Returns all facts that commands can change, sorted, as a new JSON value.

        States of one game with equal facts have equal possible commands and the same future. Only the wording of `look`
        depends on more than the facts; that memory is part of `snapshot()`.
        """
        return self._state.facts()

    def changes(self) -> dict[str, list[list[str]]]:
        """Returns the facts `gained` and `lost` since the start, as a new JSON value.

        Within one game this says as much as `facts()`, with a few facts in place of a hundred.
        """
        return self._state.changes()

    def snapshot(self) -> dict[str, Any]:
        """Returns the whole state as a JSON value, the memory behind the wording of `look` included."""
        return self._state.to_json()

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Goes to the state of a snapshot of the same game.

        Raises:
            ValueError: The snapshot is damaged or belongs to another game; the state stays as it was.
        """
        self._enter(State.from_json(self.game, snapshot))

    def clone(self) -> Engine:
        """Returns an independent engine in the same state."""
        other = Engine(self.game, put_alias=self.put_alias)
        other._enter(self._state.copy())
        return other

    def oracle(self) -> list[str]:
        """Returns commands that win from the present state; see `agent_envs.envs.alfworld.oracle.plan`."""
        from agent_envs.envs.alfworld.oracle import plan

        return plan(self)

    # ---- possible commands --------------------------------------------------------------------------------------

    def _list_options(self) -> dict[str, _Option]:
        """Collects the commands possible here, apart from `go to`, and the full sorted list."""
        game, held = self.game, self._state.held
        options: dict[str, _Option] = {"inventory": (Engine._inventory, "", ""), "look": (Engine._look, "", "")}
        if game.grammar.help_text:
            options["help"] = (Engine._help, "", "")
        for receptacle in game.receptacles_at[self._state.location]:
            self._add_receptacle_options(options, receptacle)
        if held:
            name = game.names[held]
            options[f"examine {name}"] = (Engine._examine_object, held, "")
            if held in game.knives:
                for item in game.sliceable:
                    if self._state.holds(("objectatlocation", item, self._state.location)):
                        options[f"slice {game.names[item]} with {name}"] = (Engine._slice, item, held)
        commands = sorted(options)
        # Verbs never interleave in the order, so the list of moves goes in as one piece.
        index = bisect_left(commands, "go to ")
        commands[index:index] = game.move_commands[self._state.location]
        self._admissible = commands
        return options

    def _add_receptacle_options(self, options: dict[str, _Option], receptacle: str) -> None:
        game, names, held = self.game, self.game.names, self._state.held
        name = names[receptacle]
        options[f"examine {name}"] = (Engine._examine_receptacle, receptacle, "")
        reachable = True
        if receptacle in game.openable:
            reachable = self._state.holds(("opened", receptacle))
            if reachable:
                options[f"close {name}"] = (Engine._close, receptacle, "")
            else:
                options[f"open {name}"] = (Engine._open, receptacle, "")
        for item in self._state.contents.get(receptacle, ()):
            if item in game.toggleable:
                options[f"use {names[item]}"] = (Engine._use, item, "")
            if reachable and not held and item in game.pickupable:
                options[f"take {names[item]} from {name}"] = (Engine._take, item, receptacle)
        if held:
            if reachable and held in game.accepts.get(receptacle, ()):
                options[game.grammar.place_command % (names[held], name)] = (Engine._place, held, receptacle)
            for verb, items in game.treatments.get(receptacle, ()):
                if held in items:
                    options[f"{verb} {names[held]} with {name}"] = (_TREAT[verb], held, receptacle)

    # ---- commands -----------------------------------------------------------------------------------------------

    def _go(self, receptacle: str, location: str) -> str:
        game = self.game
        self._state.discard(("atlocation", game.agent, self._state.location))
        self._state.add(("atlocation", game.agent, location))
        self._state.location = location
        self._options = None
        target = location if game.grammar.arrive_names_location else receptacle
        return f"You arrive at {game.names[target]}. {self._describe(receptacle)}"

    def _open(self, receptacle: str, _: str) -> str:
        self._state.add(("opened", receptacle))
        self._options = None
        return f"You open the {self.game.names[receptacle]}. {self._describe(receptacle)}"

    def _close(self, receptacle: str, _: str) -> str:
        self._state.discard(("opened", receptacle))
        self._options = None
        return f"You close the {self.game.names[receptacle]}."

    def _take(self, item: str, receptacle: str) -> str:
        state, agent = self._state, self.game.agent
        state.discard(("inreceptacle", item, receptacle))
        state.discard(("objectatlocation", item, state.location))
        state.add(("holds", agent, item))
        state.add(("holdsany", agent))
        state.take_out(item, receptacle)
        state.held = item
        state.left.add((item, receptacle))
        self._options = None
        return f"You pick up the {self.game.names[item]} from the {self.game.names[receptacle]}."

    def _place(self, item: str, receptacle: str) -> str:
        state, agent = self._state, self.game.agent
        state.add(("inreceptacle", item, receptacle))
        state.add(("objectatlocation", item, state.location))
        state.discard(("holds", agent, item))
        state.discard(("holdsany", agent))
        state.put_in(item, receptacle)
        state.held = ""
        state.left.discard((item, receptacle))
        self._options = None
        return self.game.grammar.place_feedback % (self.game.names[item], self.game.names[receptacle])

    def _clean(self, item: str, receptacle: str) -> str:
        return self._treat("clean", item, receptacle)

    def _heat(self, item: str, receptacle: str) -> str:
        return self._treat("heat", item, receptacle)

    def _cool(self, item: str, receptacle: str) -> str:
        return self._treat("cool", item, receptacle)

    def _treat(self, verb: str, item: str, receptacle: str) -> str:
        gained, lost = _EFFECTS[verb]
        if lost is not None:
            self._state.discard((lost, item))
        self._state.add((gained, item))
        return f"You {verb} the {self.game.names[item]} using the {self.game.names[receptacle]}."

    def _use(self, item: str, _: str) -> str:
        self._state.discard(("ison", item))
        self._state.add(("istoggled", item))
        return f"You turn on the {self.game.names[item]}."

    def _slice(self, item: str, knife: str) -> str:
        self._state.add(("issliced", item))
        return f"You sliced the {self.game.names[item]} with the {self.game.names[knife]}."

    def _examine_receptacle(self, receptacle: str, _: str) -> str:
        return self._describe(receptacle)

    def _examine_object(self, item: str, _: str) -> str:
        game = self.game
        name = game.names[item]
        if item in game.inner_items:
            inner = enumerate_items([game.listed[other] for other in game.inner_items[item]])
            return f"This is a normal {name}. In it, you see {inner}."
        for predicates, text in _CONDITIONS:
            if all(self._state.holds((predicate, item)) for predicate in predicates):
                return text % name
        if item in game.toggleable and self._state.holds(("istoggled", item)):
            return f"This {name} is on."
        if item in game.sliceable and self._state.holds(("issliced", item)):
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _look(self, _: str, __: str) -> str:
        game, here = self.game, self.game.receptacles_at[self._state.location]
        if not here:
            return _middle_of_room([])
        beside = [
            game.listed[item]
            for item, receptacle in sorted(self._state.left)
            if receptacle in here and self._state.holds(("objectatlocation", item, self._state.location))
        ]
        facing = enumerate_items([game.names[receptacle] for receptacle in here])
        return f"You are facing the {facing}. Next to it, you see {enumerate_items(beside)}."

    def _inventory(self, _: str, __: str) -> str:
        held = self._state.held
        return f"You are carrying: {self.game.listed[held]}." if held else "You are not carrying anything."

    def _help(self, _: str, __: str) -> str:
        return self.game.grammar.help_text

    def _describe(self, receptacle: str) -> str:
        """Says what can be seen of a receptacle."""
        game = self.game
        name = game.names[receptacle]
        openable = receptacle in game.openable
        if openable and not self._state.holds(("opened", receptacle)):
            return f"The {name} is closed."
        seen = enumerate_items([game.listed[item] for item in self._state.contents.get(receptacle, ())])
        return f"The {name} is open. In it, you see {seen}." if openable else f"On the {name}, you see {seen}."


_Option: TypeAlias = tuple[Callable[[Engine, str, str], str], str, str]
_TREAT = {"clean": Engine._clean, "heat": Engine._heat, "cool": Engine._cool}


def _middle_of_room(listed: list[str]) -> str:
    seen = enumerate_items(listed)
    return f"You are in the middle of a room. Looking quickly around you, you see {seen}."
