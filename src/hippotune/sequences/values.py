"""What a hyper-parameter's value is, and when two of them are equal.

A value is a number, a string or a boolean. Numbers that are not whole are worked out in decimal and rounded
to twelve significant digits here and nowhere else, so that plain equality is the right equality: 0.1 decayed
by 0.1 is 0.01. Kinds are kept apart (``True`` is not 1), but 128 and 128.0 are one number: an int, with all
its digits. Numbers from 2**63 on are floats where a float of twelve digits is equal to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from hippotune.errors import InvalidInput

Value = int | float | str | bool
Number = int | float
Written = Value | Mapping[str, float]
"""A value as it is written: the weights of a mixture as a mapping."""

DIGITS = 12
_ROUNDED_FROM = 10**DIGITS
_WHOLE_UNTIL = 2**63

# No traps: what is too large for a float becomes inf, what is too small 0.0, as in float arithmetic.
_ROUNDING = Context(prec=DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
WIDE = Context(prec=30, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def plain(name: str, value: object) -> Value:
    """Return `value` as a Python int, float, str or bool, of which equal numbers are one and the same."""
    found = unwrapped(name, value)
    return found if isinstance(found, (bool, str)) else _one_kind(found)


def _one_kind(number: Number) -> Number:
    """Return the int, where numbers below 2**63 are whole; above it the float, where it is equal."""
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < _WHOLE_UNTIL else number
    if abs(number) < _WHOLE_UNTIL:
        return number
    near = rounded(Decimal(number))
    return near if near == number else number


def unwrapped(name: str, value: object) -> Value:
    """Return `value` as a Python int, float, str or bool.

    Scalars of NumPy and torch are unwrapped; a mapping is taken for the weights of a mixture.
    """
    if not isinstance(value, (int, float, str)) and hasattr(value, "item"):
        with suppress(TypeError, ValueError, RuntimeError):  # more than one element: refused below
            value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{name} is {value!r}; expected a finite number")
        return float(value)
    if isinstance(value, Mapping):
        from hippotune.sequences.mixtures import mixture_text

        return mixture_text(name, value)
    if isinstance(value, str):
        return str.__str__(value)  # the text itself, also where a string enumeration prints as something else
    raise InvalidInput(
        f"{name} is {value!r} of type {type(value).__name__}; expected a number, a string or a boolean "
        "(give anything else a name, and look it up in setup)"
    )


def exact(number: Number) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(Decimal(repr(number)))


def wide(number: Fraction) -> Decimal:
    """Return the number as a decimal of many more digits than values have."""
    return WIDE.divide(Decimal(number.numerator), Decimal(number.denominator))


def rounded(number: Decimal) -> Number:
    """Return the number rounded to twelve significant digits, or all of it where it is whole."""
    near = float(_ROUNDING.plus(number))
    if _ROUNDED_FROM <= abs(near) < _WHOLE_UNTIL and number == number.to_integral_value():
        return int(number)
    return _one_kind(near)


def rounded_ratio(numerator: int, denominator: int) -> Number:
    """Return the ratio of two whole numbers as `rounded` does, in one rounding."""
    near = float(_ROUNDING.divide(Decimal(numerator), Decimal(denominator)))
    if _ROUNDED_FROM <= abs(near) < _WHOLE_UNTIL and numerator % denominator == 0:
        return numerator // denominator
    return _one_kind(near)


def rounded_value(value: Value) -> Value:
    """Return the value as it is compared: floats are rounded, all else stays."""
    if isinstance(value, (bool, str)):
        return value
    return rounded(Decimal(repr(value))) if isinstance(value, float) else _one_kind(value)


_BOOLEANS = {False: ("bool", False), True: ("bool", True)}


def tagged(value: Value) -> Value | tuple[str, bool]:
    """Return something hashable that is equal for equal values only: booleans are told from 0 and 1."""
    return _BOOLEANS[value] if value.__class__ is bool else value


def same(first: Value, second: Value) -> bool:
    """Whether two values are equal and of one kind."""
    return first == second and (first.__class__ is bool) == (second.__class__ is bool)
