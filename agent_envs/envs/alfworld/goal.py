"""Goals: from a PDDL expression to the short lists of facts that are enough to win.

ALFWorld's goals are conjunctions of existential blocks. Each block is expanded once, when a game is loaded, over the
facts that never change. What is left is a list of alternatives, each a few changing facts; the block is true as soon as
all facts of one alternative hold. Facts that no sequence of commands can reach are left out, so that a block without
alternatives shows an unreachable goal at load time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, TypeGuard

from agent_envs.envs.alfworld.pddl import (
    ARITIES,
    STATE_PREDICATES,
    Arguments,
    Expression,
    PddlError,
    check_arity,
    show,
)
from agent_envs.envs.alfworld.reach import Reach

Fact: TypeAlias = tuple[str, ...]
Alternative: TypeAlias = tuple[Fact, ...]

_MAX_ALTERNATIVES = 100_000
# Sentences for problems that come without one, one template of ALFWorld per task type.
_SENTENCES = {
    "istoggled": "look at {object} under the {lamp}",
    "isclean": "put a clean {object} in {receptacle}",
    "ishot": "put a hot {object} in {receptacle}",
    "iscool": "put a cool {object} in {receptacle}",
    "two": "put two {object} in {receptacle}",
    "place": "put a {object} in {receptacle}",
}


@dataclass(slots=True)
class Block:
    """One existential conjunct of a goal; names that start with `?` are variables.

    Attributes:
        atoms: Predicates with their arguments, `(predicate, term, ..)`.
        unequal: Pairs of terms that must differ.
        num_quantifiers: Quantifiers read so far; gives equal variables of two quantifiers different names.
    """

    atoms: list[Fact] = field(default_factory=list)
    unequal: list[tuple[str, str]] = field(default_factory=list)
    num_quantifiers: int = 0


def read_goal(expression: Expression) -> list[Block]:
    """Splits a goal into its top-level blocks.

    Raises:
        PddlError: The goal uses a form other than `and`, `exists`, a fact, or `(not (= a b))`.
    """
    conjuncts = expression[1:] if isinstance(expression, list) and expression[:1] == ["and"] else [expression]
    blocks = []
    for conjunct in conjuncts:
        block = Block()
        _flatten(conjunct, {}, block)
        bound = {term for atom in block.atoms for term in atom[1:]}
        if free := sorted({term for pair in block.unequal for term in pair if term[0] == "?"} - bound):
            raise PddlError(f"the goal compares {free[0].split('#')[0]}, which occurs in no fact")
        blocks.append(block)
    if not any(block.atoms for block in blocks):
        raise PddlError("the goal is empty")
    return blocks


def _flatten(expression: Expression, scope: Mapping[str, str], block: Block) -> None:
    """Adds the atoms of `expression` to `block`; quantified variables get unique names."""
    head = expression[0] if expression else ""
    if isinstance(expression, tuple) and head in ARITIES:
        check_arity(head, len(expression) - 1, expression)
        block.atoms.append((head, *(_term(term, scope) for term in expression[1:])))
    elif not isinstance(expression, list):
        raise PddlError(f"the goal has an unknown form: {show(expression)}")
    elif head == "and":
        for part in expression[1:]:
            _flatten(part, scope, block)
    elif head == "exists" and len(expression) == 3 and isinstance(expression[1], tuple):
        block.num_quantifiers += 1
        names = {name: f"{name}#{block.num_quantifiers}" for name in expression[1] if name[0] == "?"}
        _flatten(expression[2], {**scope, **names}, block)
    elif head == "not" and len(expression) == 2 and _is_equality(expression[1]):
        block.unequal.append((_term(expression[1][1], scope), _term(expression[1][2], scope)))
    else:
        raise PddlError(f"the goal has an unknown form: {show(expression)}")


def _is_equality(expression: Expression) -> TypeGuard[Arguments]:
    """Whether the expression is `(= a b)`."""
    return isinstance(expression, tuple) and len(expression) == 3 and expression[0] == "="


def _term(term: str, scope: Mapping[str, str]) -> str:
    """Resolves a term; constants stand for themselves."""
    if term.startswith("?") and term not in scope:
        raise PddlError(f"the goal uses the variable {term} outside its quantifier")
    return scope.get(term, term)


def describe(blocks: list[Block]) -> str:
    """Returns a task sentence for one of the six goal forms, without full stop; `UNKNOWN GOAL` for other goals."""
    atoms = [atom for block in blocks for atom in block.atoms]
    predicates = {atom[0] for atom in atoms}
    lamps = {atom[1] for atom in atoms if atom[0] == "istoggled"}
    names = {}
    for predicate, *terms in atoms:
        if predicate in ("objecttype", "receptacletype"):
            role = "receptacle" if predicate == "receptacletype" else "lamp" if terms[0] in lamps else "object"
            names[role] = terms[1].removesuffix("type")
    form = next((form for form in ("istoggled", "isclean", "ishot", "iscool") if form in predicates), "place")
    if form == "place" and any(block.unequal for block in blocks):
        form = "two"
    needed = {"object", "lamp" if form == "istoggled" else "receptacle"}
    return _SENTENCES[form].format(**names) if needed <= set(names) else "UNKNOWN GOAL"


def expand(blocks: list[Block], reach: Reach) -> tuple[tuple[Alternative, ...], ...]:
    """Expands every block into its alternatives.

    Args:
        blocks: Blocks of the goal.
        reach: What the commands of the game can bring about.

    Returns:
        Per block the alternatives, each a sorted tuple of changing facts that together make the block true.

    Raises:
        PddlError: No sequence of commands can make the goal true, or it has too many alternatives.
    """
    relation = cache(reach.relation)
    goal = tuple(_alternatives(block, relation) for block in blocks)
    for block, alternatives in zip(blocks, goal, strict=True):
        if not alternatives:
            needs = " ".join(show([word.split("#")[0] for word in atom]) for atom in block.atoms)
            raise PddlError(f"the goal cannot be reached by any commands, it needs {needs}")
    return goal


def _alternatives(block: Block, relation: Callable[[str], Set[Arguments]]) -> tuple[Alternative, ...]:
    """Lists all ways to make one block true, by a join over its atoms."""
    atoms = sorted(block.atoms, key=lambda atom: atom[0] in STATE_PREDICATES)  # Facts that never change bind first.
    found: dict[Alternative, None] = {}
    ordered = cache(lambda predicate: sorted(relation(predicate)))

    def extend(index: int, binding: dict[str, str]) -> None:
        if any(binding.get(left, left) == binding.get(right, right) for left, right in block.unequal):
            return
        if index == len(atoms):
            ground = {tuple(binding.get(word, word) for word in atom) for atom in atoms}
            found[tuple(sorted(fact for fact in ground if fact[0] in STATE_PREDICATES))] = None
            if len(found) > _MAX_ALTERNATIVES:
                raise PddlError(f"the goal can be reached in more than {_MAX_ALTERNATIVES} ways")
            return
        predicate, *terms = atoms[index]
        values = tuple(binding.get(term, term) for term in terms)
        if not any(value.startswith("?") for value in values):
            if values in relation(predicate):
                extend(index + 1, binding)
            return
        for row in ordered(predicate):
            extended = dict(binding)
            if all(extended.setdefault(v, x) == x if v[0] == "?" else v == x for v, x in zip(values, row, strict=True)):
                extend(index + 1, extended)

    extend(0, {})
    return tuple(found)
