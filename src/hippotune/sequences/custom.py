"""Sequences that have no closed form: a table of values, and a user's own function of the step."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from hippotune import checks
from hippotune.errors import InvalidInput, TrainerError
from hippotune.sequences.base import FOREVER, Distribution, Piece, Sequence
from hippotune.sequences.laws import Free, Listed
from hippotune.sequences.values import Value, plain, rounded_value, tagged

_may_import = True
_identified: Callable[[Any], str] | None = None
_stored: WeakKeyDictionary[Any, Mapping[str, str | None]] = WeakKeyDictionary()
_SHOWN = 8
"""A longer table is shown shortened."""


class Table(Sequence):
    """One value for each of the first len(values) steps; there are none after them."""

    __slots__ = ("_law",)

    _law: Listed

    def __init__(self, values: Iterable[Value | Distribution] | Distribution) -> None:
        listed = checks.several("values", values)
        if not listed:
            raise InvalidInput("values is empty; expected at least one value")
        kept = tuple(rounded_value(plain(f"values[{at}]", value)) for at, value in enumerate(listed))
        super().__init__(kept)
        booleans = frozenset(at for at, value in enumerate(kept) if isinstance(value, bool))
        object.__setattr__(self, "_law", Listed(kept, booleans, 0))

    @property
    def limit(self) -> int:
        """The number of steps that there are values for."""
        return len(self.arguments[0])

    def _piece(self, step: int) -> Piece:
        if step >= self.limit:
            raise InvalidInput(
                f"step {step} was asked of {self!r}, which has values for steps 0 to {self.limit - 1}; "
                "make it longer (steps=…), or say with .then(…, at=…) what follows"
            )
        return Piece(self._law, self.limit)

    def _identity(self) -> object:
        return tuple(map(tagged, self.arguments[0]))

    def __repr__(self) -> str:
        (values,) = self.arguments
        shown = (*values[: _SHOWN - 2], ..., values[-1]) if len(values) > _SHOWN else values
        return f"Table([{', '.join('...' if value is ... else repr(value) for value in shown)}])"


class Function(Sequence):
    """A user's own function of the step; asked for a step again, it must return the same value.

    With `steps` it is called at once for that many steps, and the result is a `Table`: frozen, and stored by
    its values. Without, it is called when a value is needed, two are equal only if the function is the same,
    and it is stored by reference: it must be importable, and neither its source nor what it reads (globals,
    functions, closures) may change under a stored plan.
    """

    __slots__ = ()

    def __new__(cls, fn: Callable[[int], Value], steps: int | None = None) -> Function:
        """Make a `Table` where `steps` is given."""
        _check_callable(fn)
        if steps is None:
            return super().__new__(cls)
        count = checks.whole("steps", steps, least=1)
        table: Any = Table([plain(f"fn({step})", fn(step)) for step in range(count)])
        return table  # type: ignore[no-any-return]  # another class on purpose: then __init__ is not called

    def __init__(self, fn: Callable[[int], Value], steps: int | None = None) -> None:
        super().__init__(fn, None)
        if (known := _known(fn)) is not None and known != _fingerprint(fn, "code" in known):
            raise _changed(fn.__qualname__)

    def _piece(self, step: int) -> Piece:
        return Piece(Free(self.arguments[0], 0), FOREVER)

    def to_json(self) -> dict[str, Any]:
        """Return a reference to the function, with a fingerprint of its source."""
        function = self.arguments[0]
        reference = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
        _check_importing(reference)
        try:
            found = _imported(reference)
        except (ImportError, AttributeError, ValueError):
            found = None
        if found is not function:
            raise InvalidInput(
                f"{function!r} cannot be stored: it is not found by importing {reference} "
                "(a lambda, or defined inside a function); pass steps= to store its values, "
                "or define it in a module"
            )
        fingerprint = _fingerprint(function)
        _store(function, fingerprint)
        return {"family": "Function", "fn": reference, **fingerprint}

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Any:
        """Import the function; refuse it if its source is no longer what it was."""
        reference = str(arguments.get("fn"))
        _check_importing(reference)
        try:
            function = _imported(reference)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidInput(f"the stored function {reference} cannot be imported: {error}") from None
        stored = {name: arguments[name] for name in ("source", "code") if name in arguments}
        if stored != _fingerprint(function, "code" in stored):
            raise _changed(reference)
        _store(function, stored)
        return cls(function)

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, self.arguments[:1]

    def __repr__(self) -> str:
        function = self.arguments[0]
        return f"Function({getattr(function, '__qualname__', repr(function))})"


def refuse_functions() -> None:
    """Take no function by name any more: for a server, which runs no user code, and those that ask it."""
    global _may_import
    _may_import = False


def identify_functions_by(identified: Callable[[Any], str]) -> None:
    """Have functions stored with the identity of all that they read, which is not the core's to find."""
    global _identified
    _identified = identified


def _check_callable(fn: object) -> None:
    if not callable(fn):
        raise InvalidInput(f"fn is {fn!r}; expected a function of the step")
    try:
        hash(fn)
    except TypeError:
        raise InvalidInput(f"fn is {fn!r}, which is not hashable; expected a function of the step") from None


def _check_importing(reference: str) -> None:
    if not _may_import:
        raise InvalidInput(
            f"the function {reference} is code, and a plan on a server takes values only; pass steps= to "
            "have them: Function(fn, steps=100)"
        )


def _imported(reference: str) -> Any:
    module, name = reference.split(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))


def _changed(reference: str) -> InvalidInput:
    return InvalidInput(
        f"the stored function {reference} is not what it was: its source has changed, or what it reads, so "
        "its values may have; put it back, or give the new one another name"
    )


def _known(function: Any) -> Mapping[str, str | None] | None:
    try:
        return _stored.get(function)
    except TypeError:
        return None  # of a kind that cannot be referred to weakly: built in, and never another


def _store(function: Any, fingerprint: Mapping[str, str | None]) -> None:
    with suppress(TypeError):
        _stored[function] = fingerprint


def _fingerprint(function: Any, whole: bool = True) -> dict[str, str | None]:
    """Return what a function is: all that it reads, or its source where that is not known, or asked for."""
    if whole and _identified is not None:
        try:
            return {"code": _identified(function)}
        except TrainerError as error:
            raise InvalidInput(
                f"{function!r} cannot be stored: {error}; or pass steps= to store its values"
            ) from None
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return {"source": None}  # built in
    return {"source": hashlib.sha256(source.encode()).hexdigest()[:16]}
