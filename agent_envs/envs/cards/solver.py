"""Winning formulas for the point games: a search over subsets, and completions of a formula already begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product
from typing import NamedTuple

from agent_envs.envs.cards.formula import Arithmetic, Number, apply, value_of

_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}
_NEAR = 1e-6


class _Term(NamedTuple):
    """A number, or two terms joined by an operator."""

    symbol: str
    left: _Term | None = None
    right: _Term | None = None


_Values = dict[Number, _Term]


@lru_cache(maxsize=2048)
def solve(numbers: tuple[int, ...], target: int, arithmetic: Arithmetic = "exact") -> tuple[str, ...] | None:
    """Return a formula that uses every number once and equals ``target``, or None if there is none.

    Every value that a subset of the numbers can reach is found once, from the values of its two halves, so four
    numbers need some hundred operations instead of all orders and bracketings.

    Args:
        numbers: Two to four numbers.
        target: The value wanted.
        arithmetic: ``"exact"``, or ``"float"`` for a formula that is right in floating point too.

    Returns:
        The symbols without ``=``.
    """
    full = (1 << len(numbers)) - 1
    reached: dict[int, _Values] = {}
    for mask in range(1, full):  # a half is a smaller number than the whole, so it comes first
        values: _Values = {}
        if mask & (mask - 1) == 0:
            number = numbers[mask.bit_length() - 1]
            values[Fraction(number) if arithmetic == "exact" else number] = _Term(str(number))
        for half in _halves(mask):
            for value, term in _combine(reached[half], reached[mask ^ half]):
                values.setdefault(value, term)
        reached[mask] = values
    for half in _halves(full):
        for symbol, (a, first), (b, second) in _near(reached[half], reached[full ^ half], target):
            if apply(symbol, a, b, arithmetic) == target:
                return _symbols(_Term(symbol, first, second))
    return None


def complete(
    formula: Sequence[str],
    numbers: Sequence[int],
    operators: Sequence[str],
    target: int,
    *,
    max_symbols: int,
    arithmetic: Arithmetic = "exact",
) -> list[str] | None:
    """Return symbols that finish a formula, so that it equals ``target`` and uses all ``numbers`` left.

    No further parenthesis is opened, open ones are closed at one place. Operators are tried in the order given.

    Args:
        formula: The symbols written so far.
        numbers: The numbers not used yet.
        operators: Operators that may be written.
        target: The value wanted.
        max_symbols: Longest formula that is still evaluated.
        arithmetic: As in :func:`solve`.

    Returns:
        The first completion found, or None.
    """
    after_operand = bool(formula) and (formula[-1].isdigit() or formula[-1] == ")")
    open_count = formula.count("(") - formula.count(")")
    orders = sorted(set(permutations(map(str, numbers))), key=lambda order: [numbers.index(int(n)) for n in order])
    gaps = len(numbers) if after_operand else max(len(numbers) - 1, 0)
    for order, signs in product(orders, product(operators, repeat=gaps)):
        tail: list[str] = []
        for index, number in enumerate(order):
            if after_operand or index:
                tail.append(signs[index if after_operand else index - 1])
            tail.append(number)
        for closed in _closings(tail, open_count):
            symbols = [*formula, *closed]
            if len(symbols) <= max_symbols and value_of(symbols, arithmetic) == target:
                return closed
    return None


def _closings(tail: list[str], open_count: int) -> Iterator[list[str]]:
    """Yield ``tail`` with all open parentheses closed together: before it, or behind one of its numbers."""
    if open_count <= 0:
        yield tail
        return
    for place in [0, *(i + 1 for i, symbol in enumerate(tail) if symbol.isdigit())]:
        yield [*tail[:place], *[")"] * open_count, *tail[place:]]


def _halves(mask: int) -> Iterator[int]:
    """Yield one half of each split of a set into two non-empty parts; the half without the highest member."""
    part = (mask - 1) & mask
    while part:
        if part < mask ^ part:
            yield part
        part = (part - 1) & mask


def _combine(left: _Values, right: _Values) -> Iterator[tuple[Number, _Term]]:
    for a, first in left.items():
        for b, second in right.items():
            yield a + b, _Term("+", first, second)
            yield a * b, _Term("*", first, second)
            yield a - b, _Term("-", first, second)
            yield b - a, _Term("-", second, first)
            if b:
                yield a / b, _Term("/", first, second)
            if a:
                yield b / a, _Term("/", second, first)


def _near(
    left: _Values, right: _Values, target: int
) -> Iterator[tuple[str, tuple[Number, _Term], tuple[Number, _Term]]]:
    """Yield the operations whose result is the target but for rounding: floats find them ten times faster."""
    others = [(float(b), (b, term)) for b, term in right.items()]
    for a, first in left.items():
        x, one = float(a), (a, first)
        for y, other in others:
            if abs(x + y - target) < _NEAR:
                yield "+", one, other
            if abs(x * y - target) < _NEAR:
                yield "*", one, other
            if abs(abs(x - y) - target) < _NEAR:
                yield ("-", one, other) if x > y else ("-", other, one)
            if y and abs(x / y - target) < _NEAR:
                yield "/", one, other
            if x and abs(y / x - target) < _NEAR:
                yield "/", other, one


def _symbols(term: _Term, binding: int = 0) -> tuple[str, ...]:
    """Write a term, in parentheses if its operator binds less than ``binding`` asks for.

    A right operand of equal binding is bracketed: floats need it for ``+`` and ``*`` too.
    """
    if term.left is None or term.right is None:
        return (term.symbol,)
    own = _BINDING[term.symbol]
    inside = (*_symbols(term.left, own), term.symbol, *_symbols(term.right, own + 1))
    return inside if own >= binding else ("(", *inside, ")")
