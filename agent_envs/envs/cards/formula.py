"""Value of a formula written by a policy, by a small parser of our own: nothing is ever passed to ``eval``.

The language is Python's for integers, ``+ - * / // **``, signs and parentheses, with Python's precedence. Exact
arithmetic (``fractions.Fraction``) is the default; ``"float"`` gives what Python's own operators give, as the
original games do.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, Literal

Arithmetic = Literal["exact", "float"]
Number = Fraction | int | float

ARITHMETICS: Final = ("exact", "float")
LIMIT: Final = 1_000_000
"""Largest magnitude of an intermediate value; in exact arithmetic also of its numerator and denominator."""
MAX_CHARS: Final = 128
"""Longest formula text; the games' formulas have at most 42 characters."""

_MAX_EXPONENT: Final = LIMIT.bit_length()  # 2 ** 20 is the first power of two above the limit
_TOKEN = re.compile(r"\s*(?:([0-9]+)|(\*\*|//|[-+*/()]))", re.ASCII)
_SIGN_POWER = 3
_POWER = 4
# Operator -> how tightly it binds; signs lie between products and powers, as in Python's grammar.
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "**": _POWER}
_PLAIN: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
}


class FormulaError(ValueError):
    """The text is no formula, divides by zero, exceeds the limit or has no exact value."""


def evaluate(text: str, arithmetic: Arithmetic = "exact") -> Number:
    """Return the value of a formula.

    Args:
        text: The formula; blanks separate tokens, so ``"1 2"`` is an error and ``"12"`` a number.
        arithmetic: ``"exact"`` computes with fractions, ``"float"`` as Python does (``/`` gives a float).

    Raises:
        FormulaError: If there is no value within the limits.
    """
    if len(text) > MAX_CHARS:
        raise FormulaError(f"A formula has at most {MAX_CHARS} characters, got {len(text)}.")
    parser = _Parser(_tokens(text), arithmetic)
    try:
        value = parser.expression(0)
    except (ZeroDivisionError, OverflowError) as error:
        raise FormulaError(str(error)) from None
    if parser.peek():
        raise FormulaError(f"Unexpected {parser.peek()!r} in {text!r}.")
    return value


def value_of(symbols: Sequence[str], arithmetic: Arithmetic = "exact") -> Number | None:
    """Return the value of symbols joined without blanks, or None if they are no formula.

    Two numbers side by side form one literal: ``["1", "2"]`` is 12.
    """
    try:
        return evaluate("".join(symbols), arithmetic)
    except FormulaError:
        return None


def apply(symbol: str, left: Number, right: Number, arithmetic: Arithmetic = "exact") -> Number:
    """Return ``left <symbol> right`` within the limits.

    Raises:
        FormulaError: If the result exceeds the limit or has no exact value.
        ZeroDivisionError: For a division by zero.
        OverflowError: If a float overflows.
    """
    if symbol != "**":
        return _checked(_PLAIN[symbol](left, right), arithmetic)
    if arithmetic == "exact":
        return _checked(_exact_power(Fraction(left), Fraction(right)), arithmetic)
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > _MAX_EXPONENT:
        raise FormulaError("The power exceeds the limit.")  # before it costs anything
    result = left**right
    if isinstance(result, complex):
        raise FormulaError("A root of a negative number is not real.")
    return _checked(result, arithmetic)


def _checked(value: Number, arithmetic: Arithmetic) -> Number:
    if arithmetic == "exact":
        value = Fraction(value)
        too_large = max(abs(value.numerator), value.denominator) > LIMIT
    else:
        too_large = not -LIMIT <= value <= LIMIT
    if too_large:
        raise FormulaError(f"An intermediate value exceeds {LIMIT}.")
    return value


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    root = exponent.denominator
    if root > 1:
        if base < 0:
            raise FormulaError("A root of a negative number is not real.")
        base = Fraction(_exact_root(base.numerator, root), _exact_root(base.denominator, root))
    if max(abs(base.numerator), base.denominator) > 1 and abs(exponent.numerator) > _MAX_EXPONENT:
        raise FormulaError("The power exceeds the limit.")
    return base**exponent.numerator


def _exact_root(number: int, root: int) -> int:
    # number <= LIMIT, so the float root is off by far less than 1
    guess: int = round(float(number) ** (1 / root))
    if (root > _MAX_EXPONENT and guess > 1) or guess**root != number:
        raise FormulaError(f"The root {root} of {number} is irrational.")
    return guess


def _tokens(text: str) -> list[str]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"Unexpected {text[position]!r} in {text!r}.")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


class _Parser:
    """Precedence climbing that computes as it reads; two stack frames per nesting level."""

    def __init__(self, tokens: list[str], arithmetic: Arithmetic) -> None:
        self._tokens, self._position, self._arithmetic = tokens, 0, arithmetic

    def peek(self) -> str:
        """Return the next token, empty at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def expression(self, binding: int) -> Number:
        """Read an operand and every operator behind it that binds at least as tightly as ``binding``."""
        value = self._operand()
        while _BINDING.get(self.peek(), -1) >= binding:
            symbol = self._take()
            strength = _BINDING[symbol]
            # powers group to the right, everything else to the left
            right = self.expression(strength if strength == _POWER else strength + 1)
            value = apply(symbol, value, right, self._arithmetic)
        return value

    def _operand(self) -> Number:
        token = self._take()
        if token in ("+", "-"):
            value = self.expression(_SIGN_POWER)
            return -value if token == "-" else value
        if token == "(":
            value = self.expression(0)
            if self._take() != ")":
                raise FormulaError("A parenthesis is not closed.")
            return value
        if not token.isdigit() or (token[0] == "0" and token.strip("0")):
            raise FormulaError(f"Expected a number, got {token!r}.")
        number = int(token)
        return _checked(Fraction(number) if self._arithmetic == "exact" else number, self._arithmetic)

    def _take(self) -> str:
        token = self.peek()
        self._position += 1
        return token
