"""Reader of PDDL problems: text in, facts by predicate and a goal expression out.

Only the part of PDDL that ALFWorld problems use is accepted. As in every PDDL reader, letter case carries no meaning:
all names come out in lower case.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Arguments: TypeAlias = tuple[str, ...]
# A list of words only is a tuple, any other list a list.
Expression: TypeAlias = "str | Arguments | list[Expression]"

# Number of arguments of the predicates that no command ever changes.
STATIC_PREDICATES = {
    "receptacletype": 2,
    "receptacleatlocation": 2,
    "objecttype": 2,
    "cancontain": 2,
    "inreceptacleobject": 2,
    "openable": 1,
    "pickupable": 1,
    "cleanable": 1,
    "heatable": 1,
    "coolable": 1,
    "sliceable": 1,
    "toggleable": 1,
    "isreceptacleobject": 1,
}
# Number of arguments of the predicates that make up the state; the last four and inreceptacleobject never change, and
# are part of the state for completeness.
STATE_PREDICATES = {
    "atlocation": 2,
    "inreceptacle": 2,
    "objectatlocation": 2,
    "holds": 2,
    "holdsany": 1,
    "opened": 1,
    "isclean": 1,
    "ishot": 1,
    "iscool": 1,
    "istoggled": 1,
    "ison": 1,
    "issliced": 1,
    "inreceptacleobject": 2,
    "isreceptacleobjectfull": 1,
    "holdsanyreceptacleobject": 1,
    "full": 1,
}
ARITIES = STATIC_PREDICATES | STATE_PREDICATES

# A list without inner lists is one token: nearly all of a problem are such lists.
_TOKEN = re.compile(r"\([^()]*\)|[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
# Real problems nest 10 deep; a bound keeps hostile files away from Python's recursion limit.
_MAX_DEPTH = 100


class PddlError(ValueError):
    """A PDDL problem is damaged or uses a form that ALFWorld does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Content of a PDDL problem.

    Attributes:
        facts: Arguments of the facts of `:init`, by predicate.
        goal: Expression of `:goal`.
    """

    facts: dict[str, set[Arguments]]
    goal: Expression


def read_problem(text: str) -> Problem:
    """Reads a PDDL problem.

    Args:
        text: The problem, `(define (problem ..) .. (:init ..) (:goal ..))`.

    Returns:
        Facts and goal, in lower case.

    Raises:
        PddlError: The text is no problem; the message says what is wrong.
    """
    expression = _parse(text)
    if not isinstance(expression, list) or expression[:1] != ["define"]:
        raise PddlError("the problem does not start with '(define'")
    sections = {part[0]: part for part in expression if part and isinstance(part[0], str)}
    for name in (":objects", ":init", ":goal"):
        if name not in sections:
            raise PddlError(f"the problem has no {name} section")
    goal = sections[":goal"]
    if len(goal) != 2:
        raise PddlError(f":goal must hold one expression, got {len(goal) - 1}")
    facts = _facts(sections[":init"][1:])
    named = {argument for rows in facts.values() for row in rows for argument in row}
    if undeclared := sorted(named.difference(word for word in sections[":objects"] if isinstance(word, str))):
        raise PddlError(f":init names {undeclared[0]}, which :objects does not declare")
    return Problem(facts=facts, goal=goal[1])


def _parse(text: str) -> Expression:
    """Turns text into nested lists."""
    root: list[Expression] = []
    stack = [root]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token[0] == "(" and len(token) > 1:
            stack[-1].append(tuple(token[1:-1].split()))
        elif token == "(":
            child: list[Expression] = []
            stack[-1].append(child)
            stack.append(child)
            if len(stack) > _MAX_DEPTH:
                raise PddlError(f"parentheses are nested more than {_MAX_DEPTH} deep")
        elif token == ")":
            stack.pop()
            if not stack:
                raise PddlError("there is a ')' without its '('")
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise PddlError(f"{len(stack) - 1} '(' are never closed, the text may be cut off")
    if len(root) != 1:
        raise PddlError(f"expected one expression '(define ..)', got {len(root)}")
    return root[0]


def _facts(expressions: Sequence[Expression]) -> dict[str, set[Arguments]]:
    """Sorts the facts of `:init` by predicate and checks the number of arguments of the known ones."""
    facts: defaultdict[str, set[Arguments]] = defaultdict(set)
    for expression in expressions:
        if isinstance(expression, str) or not expression:
            raise PddlError(f":init holds {show(expression)}, which is no fact")
        if expression[0] == "=":  # A cost such as (= (total-cost) 0): no rule reads it.
            continue
        if isinstance(expression, list):
            raise PddlError(f":init holds {show(expression)}, which is no plain fact")
        predicate, arguments = expression[0], expression[1:]
        check_arity(predicate, len(arguments), expression)
        facts[predicate].add(arguments)
    return dict(facts)


def check_arity(predicate: str, num_arguments: int, expression: Expression) -> None:
    """Raises PddlError where a known predicate has the wrong number of arguments."""
    expected = ARITIES.get(predicate, num_arguments)
    if num_arguments != expected:
        raise PddlError(f"{show(expression)} has {num_arguments} arguments, {predicate} takes {expected}")


def show(expression: Expression) -> str:
    """Returns the PDDL text of an expression, shortened for error messages."""
    text = expression if isinstance(expression, str) else "(" + " ".join(show(part) for part in expression) + ")"
    return text if len(text) <= 120 else text[:117] + "..."
