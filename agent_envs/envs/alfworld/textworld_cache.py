"""The official packages, made fit for many games in one process: one caller at a time, caches, reused libraries.

The caches stand in for functions of `textworld` that give equal answers to equal questions. They are in place only
while an engine of ours is at work, so that other users of the packages in this process see nothing of them.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from agent_envs.envs.alfworld.generator import official_rules
from agent_envs.errors import missing_extra

TESTED_VERSIONS = {"textworld": "1.7.0", "alfworld": "0.4.2"}
PLACEHOLDER = "UNKNOWN GOAL"
"""Stands for the task sentence in the official grammar."""

_NUM_TRANSLATIONS = 32  # of up to 4 MB each
_NUM_PARSED = 4096
_NUM_INTERNED = 20_000

# The packages share parsers, `sys.argv` and `sys.stdout` between all games of a process.
_LOCK = threading.Lock()
_idle: list[Any] = []
_interned: dict[Any, Any] = {}


class Packages(NamedTuple):
    """What is used of the official packages."""

    make_env: Callable[[], Any]
    """Returns a new official environment that shows ALFWorld's names."""
    texts: Mapping[str, tuple[str, str]]
    """Grammar version to domain and grammar text."""
    swaps: tuple[tuple[Any, str, Any], ...]
    """Module, name of a function in it, and what stands in for it."""


def require_packages() -> None:
    """Looks for the official packages without importing them.

    Raises:
        DependencyNotInstalled: A package is missing.
    """
    for package in ("textworld", "alfworld", "fast_downward"):
        if importlib.util.find_spec(package) is None:
            raise missing_extra(package, "alfworld")


@functools.cache
def packages() -> Packages:
    """Imports the official packages, which takes seconds, and prepares the caches.

    Raises:
        DependencyNotInstalled: A package is missing.
        ValueError: The installed texts are not those of a known release.
    """
    with warnings.catch_warnings(), _data_variable():
        warnings.simplefilter("ignore")  # of the packages themselves, at import
        try:
            importlib.import_module("fast_downward")
            textworld = importlib.import_module("textworld")
            pddl = importlib.import_module("textworld.envs")
            alfworld = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
        except ModuleNotFoundError as error:
            raise missing_extra(error.name or "textworld", "alfworld") from error

    def make_env() -> Any:
        # The facts that are read are there unasked; `facts=True` would add a copy with shown names.
        return alfworld.AlfredDemangler(pddl.PddlEnv(textworld.EnvInfos(admissible_commands=True)), shuffle=False)

    domain, grammar = official_rules()
    texts = {"0.4": (domain, grammar), "0.3": (_older_domain(domain), _older_grammar(grammar))}
    return Packages(make_env, texts, _make_swaps())


@contextmanager
def _data_variable() -> Iterator[None]:
    """Undoes what importing alfworld does: it sets ALFWORLD_DATA and creates that folder below the home folder."""
    if "ALFWORLD_DATA" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ALFWORLD_DATA"] = folder
        try:
            yield
        finally:
            del os.environ["ALFWORLD_DATA"]


# ---------------------------------------------------------------------- older text release


def _older_domain(domain: str) -> str:
    """Returns the domain of the releases before 0.4: objects are cleaned in a sink too, and there is no `help`."""
    domain = _replace(domain, ";(receptacleType ?r SinkType)", "(receptacleType ?r SinkType)", 1)
    head, action, _ = domain.rpartition("(:action help")
    _replace(action, "(:action help", "", 1)
    return f"{head})\n"


def _older_grammar(grammar: str) -> str:
    """Returns the grammar of the releases before 0.4."""
    head, action, _ = grammar.rpartition("action help {")
    _replace(action, "action help {", "", 1)
    head = _replace(head, "You arrive at {r.name}.", "You arrive at {lend.name}.", 1)
    head = _replace(head, "You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}.", 1)
    return _replace(head, '"move {o} to {r}"', '"put {o} in/on {r}"', 2)


def _replace(text: str, old: str, new: str, count: int) -> str:
    if text.count(old) != count:
        wanted = ", ".join(f"{name}=={version}" for name, version in TESTED_VERSIONS.items())
        raise ValueError(
            f"The installed alfworld {importlib.metadata.version('alfworld')} has unknown texts ({old!r} occurs "
            f"{text.count(old)} times, expected {count}). Install {wanted}."
        )
    return text.replace(old, new)


# ---------------------------------------------------------------------- caches


def _make_swaps() -> tuple[tuple[Any, str, Any], ...]:
    """Returns the caches; none if the installed versions are not those that the caches were tested with."""
    found = {name: importlib.metadata.version(name) for name in TESTED_VERSIONS}
    if found != TESTED_VERSIONS:
        warnings.warn(
            f"Backend textworld was tested with {TESTED_VERSIONS}, installed are {found}: it plays without its caches, "
            "some 15 times slower, and texts may differ from those of the native backend.",
            UserWarning,
            stacklevel=2,
        )
        return ()
    planner = importlib.import_module("fast_downward")
    logic = importlib.import_module("textworld.envs.pddl.logic")
    textgen = importlib.import_module("textworld.envs.pddl.textgen")
    return (
        (planner, "pddl2sas", _cached_translation(planner.pddl2sas)),
        (logic, "_parse_and_convert", functools.lru_cache(len(TESTED_VERSIONS))(logic._parse_and_convert)),
        (textgen, "_parse_and_convert", _cached_symbols(textgen._parse_and_convert)),
        (textgen, "Rule", _CachedRule(textgen.Rule.parse_conjunctive_query)),
        (textgen, "copy_context", _copy_context),
        # Every fact ever seen; facts compare by value, so that the table may be emptied.
        (importlib.import_module("mementos.core"), "_memento_cache", _interned),
    )


def _cached_translation(translate: Callable[..., Any]) -> Callable[..., Any]:
    """Caches the translation of a problem, of which each game asks for two, twice."""
    cached = functools.lru_cache(_NUM_TRANSLATIONS)(translate)

    def pddl2sas(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        # The optimised translation serves the planner only, which is never asked.
        return cached(domain, problem)

    return pddl2sas


def _cached_symbols(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Caches the parsed form of the short texts of a grammar; callers write into what they get, so they get copies."""
    cached = functools.lru_cache(_NUM_PARSED)(parse)

    def parse_and_convert(text: str, rule_name: str = "symbols", trace: bool = False) -> Any:
        return copy.deepcopy(cached(text, rule_name=rule_name))

    return parse_and_convert


class _CachedRule:
    """Stands in for `textworld.logic.Rule` where only its parser of conditions is used."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse_conjunctive_query = functools.lru_cache(_NUM_PARSED)(parse)


def _copy_context(context: dict[str, Any]) -> dict[str, Any]:
    """Copies a context as deep as the grammar writes to it; the official copy goes down to every name."""
    return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}


def _remember_commands(env: Any) -> None:
    """Caches the commands of a loaded game: all are worked out after every step, but depend on static facts only."""
    grammar = env.unwrapped._logic.grammar
    derive, known = grammar.derive, dict[tuple[str, ...], str]()

    def derive_once(start: str, context: Mapping[str, Any]) -> str:
        if start.startswith("#"):  # an answer, which the state decides
            return str(derive(start, context))
        key = (start, *(variable.name for variable in context["mapping"].values()))
        if key not in known:
            known[key] = derive(start, context)
        return known[key]

    grammar.derive = derive_once


@contextmanager
def official_code() -> Iterator[None]:
    """Lets this thread alone run official code, with the caches in place."""
    swaps = packages().swaps
    with _LOCK:
        arguments = sys.argv  # the translator replaces them
        originals = [getattr(module, name) for module, name, _ in swaps]
        for module, name, cached in swaps:
            setattr(module, name, cached)
        try:
            yield
        finally:
            for (module, name, _), original in zip(swaps, originals, strict=True):
                setattr(module, name, original)
            sys.argv = arguments


# ---------------------------------------------------------------------- environments


def load_game_data(env: Any, problem: str, grammar: str) -> None:
    """Makes an official environment play a game; its grammar keeps the placeholder of the task sentence."""
    domain, texts = packages().texts[grammar]
    with official_code():
        if len(_interned) > _NUM_INTERNED:
            _interned.clear()
        env.load({"pddl_domain": domain, "grammar": texts, "pddl_problem": problem})
        if packages().swaps:
            _remember_commands(env)


def borrow_env() -> Any:
    """Returns an official environment that no game uses now.

    Each has its own copy of a planner library, 33 MB on disk and 2 MB in memory. Unloading a copy makes the process
    crash when it ends, because the copies register with each other, so they are used again instead.
    """
    with official_code():
        return _idle.pop() if _idle else packages().make_env()


def give_back_env(env: Any) -> None:
    """Takes an environment back for the next game."""
    _idle.append(env)
