"""The official engine, TextWorld with ALFWorld's domain, behind the interface of the native one.

Needs the extra `alfworld`. Rules, texts and facts are the official packages' own; of the native engine only the reader
of game files and the oracle are used. The packages are not thread-safe: calls of several threads wait for each other.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs.envs.alfworld.engine import Engine, StepResult, resolve_alias
from agent_envs.envs.alfworld.gamefile import load_game
from agent_envs.envs.alfworld.goal import Fact
from agent_envs.envs.alfworld.pddl import STATE_PREDICATES
from agent_envs.envs.alfworld.textworld_cache import (
    PLACEHOLDER,
    borrow_env,
    give_back_env,
    load_game_data,
    official_code,
    require_packages,
)

require_packages()  # an environment that cannot play must fail when it is built, not at its first reset

# Commands that change nothing a later answer could show; every other one is noted for snapshots.
_TEXT_ONLY = ("examine", "help", "inventory", "look")


class TextworldEngine:
    """One running game on the official engine.

    Args:
        source: Path of a game file, or its content.
        grammar: `"0.4"` or `"0.3"`.
        put_alias: Accept `put X in/on Y`, `put X in Y`, `put X on Y` and `move X to Y` alike, whatever the grammar.

    Raises:
        DependencyNotInstalled: The official packages are missing.
        GameFileError: The file is damaged or its goal cannot be reached.
    """

    def __init__(
        self, source: str | os.PathLike[str] | bytes, *, grammar: str = "0.4", put_alias: bool = False
    ) -> None:
        """Starts the game."""
        self.game = load_game(source, grammar)
        self.put_alias = put_alias
        self._env = borrow_env()
        self._free = weakref.finalize(self, give_back_env, self._env)
        load_game_data(self._env, _problem(source), grammar)
        self._start()

    def _start(self) -> None:
        with official_code():
            self._state = self._env.reset()
        # The sentence stays out of the grammar, whose texts the official engine runs as code.
        self._intro: str = self._state.feedback.replace(PLACEHOLDER, self.game.task)
        self._start_facts = self._facts()
        self._commands: list[str] = []
        self._moved = False

    def _facts(self) -> frozenset[Fact]:
        # Negated facts (`not_..`), `checked` and axioms say what has been looked at, not how things are.
        return frozenset(
            (fact.name, *(argument.name for argument in fact.arguments))
            for fact in self._state["_facts"]
            if fact.name in STATE_PREDICATES
        )

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        return bool(self._state["won"])

    def reset(self) -> str:
        """Goes back to the start and returns the first text."""
        if self._moved:
            self._start()
        return self._intro

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
        admitted = command in self._state["admissible_commands"]
        self._moved = True
        with official_code():
            self._state, score, done = self._env.step(command)
        if admitted and not command.startswith(_TEXT_ONLY):
            self._commands.append(command)
        return StepResult(self._state.feedback, score, bool(done), self.won, admitted)

    def admissible(self) -> list[str]:
        """Returns all possible commands in the official order, as a new list; `help` is among them."""
        return list(self._state["admissible_commands"])

    def facts(self) -> list[list[str]]:
        """Returns all facts that commands can change, sorted, as a new JSON value."""
        return [list(fact) for fact in sorted(self._facts())]

    def changes(self) -> dict[str, list[list[str]]]:
        """Returns the facts `gained` and `lost` since the start, as a new JSON value."""
        facts = self._facts()
        return {
            "gained": [list(fact) for fact in sorted(facts - self._start_facts)],
            "lost": [list(fact) for fact in sorted(self._start_facts - facts)],
        }

    def oracle(self) -> list[str]:
        """Returns commands that win from the present state; see `agent_envs.envs.alfworld.oracle.plan`."""
        engine = Engine(self.game)
        engine.restore({"game": self.game.digest, **self.changes(), "left": []})
        return engine.oracle()

    def snapshot(self) -> dict[str, Any]:
        """Returns the commands that led here as a JSON value."""
        return {"game": self.game.digest, "commands": list(self._commands)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Goes to the state of a snapshot of the same game by playing its commands again.

        Raises:
            ValueError: The snapshot is damaged or belongs to another game; the state stays as it was.
        """
        try:
            digest, commands = snapshot["game"], list(snapshot["commands"])
        except (TypeError, KeyError) as error:
            raise ValueError(
                f"The snapshot is damaged, or of another backend ({error!r}). Pass what snapshot() returned."
            ) from error
        if digest != self.game.digest:
            raise ValueError(f"The snapshot belongs to game {digest}, this is {self.game.digest} ({self.game.source}).")
        before = self._commands
        if refused := self._replay(commands):
            self._replay(before)
            raise ValueError(f"The snapshot is damaged ({refused} is not possible). Pass what snapshot() returned.")

    def _replay(self, commands: Sequence[Any]) -> str:
        """Plays commands from the start; returns the first that is refused, empty if none is."""
        self._start()
        for command in commands:
            if not isinstance(command, str) or not self.step(command).admitted:
                return repr(command)[:80]
        return ""

    def close(self) -> None:
        """Gives the official environment back; this engine must not be used any more."""
        self._free()


def _problem(source: str | os.PathLike[str] | bytes) -> str:
    """Returns the PDDL problem of a game file that `load_game` has accepted."""
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    text = data.decode("utf-8-sig")
    return str(json.loads(text)["pddl_problem"]) if text.lstrip().startswith("{") else text
