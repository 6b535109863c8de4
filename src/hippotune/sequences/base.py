"""What a sequence is: a value at every step, made of pieces, each under one law.

A sequence is a frozen value. What it is made from, its `arguments`, decides its equality, hash, repr, pickle
and JSON; where two differently written sequences have equal values is for `first_difference` to say. All
else that an instance holds is a cache.
"""

from __future__ import annotations

import inspect
import operator
import sys
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, cast

from hippotune.errors import InvalidInput
from hippotune.sequences.laws import Law
from hippotune.sequences.mixtures import written
from hippotune.sequences.values import Value, Written

FOREVER: Final = sys.maxsize
"""The end of a piece that has none."""

_CACHED_VALUES: Final = 32
"""How many values an instance remembers: there can be hundreds of thousands of instances."""


class Open(ABC):  # noqa: B024 - a marker
    """Marks what is not chosen yet. A sequence's class called with such an argument makes a `Family`."""

    __slots__ = ()


class Distribution(Open):
    """Marks what a value is drawn from; the kinds of distributions are spaces' business."""

    __slots__ = ()


Real = float | Distribution
Whole = int | Distribution


def is_open(value: object) -> bool:
    """Whether something is not chosen yet, or is a list with such a thing in it."""
    if isinstance(value, (list, tuple)):
        return any(map(is_open, value))
    return isinstance(value, Open)


class Piece(NamedTuple):
    """A law in force up to, and not including, step `end`."""

    law: Law
    end: int


class Part(NamedTuple):
    """The innermost sequence in force up to, and not including, step `end`; its own step 0 is at `origin`."""

    sequence: Sequence
    origin: int
    end: int


class _Families(ABCMeta):
    """Makes a call with distributions among the arguments give a `Family`, and puts names before errors."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if is_open(args) or (kwargs and is_open(tuple(kwargs.values()))):
            from hippotune.sequences.family import Family

            return Family(cast("type[Sequence]", cls), args, kwargs)
        try:
            return super().__call__(*args, **kwargs)
        except InvalidInput as error:
            raise InvalidInput(f"{cls.__name__}: {error}") from None


class Sequence(metaclass=_Families):
    """Base of all sequences.

    A subclass names its arguments in ``__init__``, hands them, checked, to ``super().__init__`` in the same
    order, and says in `_piece` which law is in force when. Two rules keep `pieces` finite where it can be:
    a sequence that stays the same from a step on says so with one piece that ends `FOREVER`, and a piece
    never ends at or before the step that was asked for.
    """

    __slots__ = ("__weakref__", "_hash", "_recent", "_values", "arguments")

    arguments: tuple[Any, ...]
    __signature__: ClassVar[inspect.Signature]
    _hash: int | None
    _recent: tuple[int, int, Law] | None
    _values: dict[int, Value] | None

    def __init_subclass__(cls) -> None:
        # Explicit, because `inspect` would find the metaclass's *args instead.
        cls.__signature__ = inspect.Signature([*inspect.signature(cls.__init__).parameters.values()][1:])
        if not cls.__name__.startswith("_"):
            FAMILIES[cls.__name__] = cls

    def __init__(self, *arguments: Any) -> None:
        keep = object.__setattr__
        keep(self, "arguments", arguments)
        keep(self, "_hash", None)
        keep(self, "_recent", None)
        keep(self, "_values", None)

    @abstractmethod
    def _piece(self, step: int) -> Piece:
        """Return the law in force at a step, and where it ends."""

    @property
    def limit(self) -> int | None:
        """The number of steps that there are values for; None where there is one for every step."""
        return None

    def value(self, step: int) -> Value:
        """Return the value at a step."""
        values = self._values
        if values is not None and (known := values.get(step)) is not None:
            return known
        step = checked_step(step)
        value = self.piece(step).law.value(step)
        if values is None or len(values) >= _CACHED_VALUES:
            values = {}
            object.__setattr__(self, "_values", values)
        values[step] = value
        return value

    def piece(self, step: int) -> Piece:
        """Return the law in force at a step and where it ends."""
        if self._recent is not None:
            start, end, law = self._recent
            if start <= step < end:
                return Piece(law, end)
        piece = self._piece(step)
        object.__setattr__(self, "_recent", (step, piece.end, piece.law))
        return piece

    def part(self, step: int) -> Part:
        """Return the innermost sequence in force at a step: itself, unless it is put together from others."""
        return Part(self, 0, FOREVER)

    def pieces(self) -> Iterator[tuple[int, Law]]:
        """Yield (start, law) for every change of law; there may be infinitely many."""
        step, last = 0, None
        limit = FOREVER if self.limit is None else self.limit
        while step < limit:
            law, end = self.piece(step)
            if law != last:
                yield step, law
            step, last = end, law

    def then(self, other: Sequence | Written | Open, at: Whole) -> Sequence:
        """Return this sequence up to step `at`, and from there `other`, which counts its own steps."""
        from hippotune.sequences.combined import Then

        chain = Then((self, other), (at,))
        alone = isinstance(chain, Then) and len(chain.arguments[0]) == 1  # at step 0: only `other` is left
        return chain.arguments[0][0] if alone else chain

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` makes this sequence from."""
        from hippotune.sequences.encoding import encode

        return encode(type(self), self.arguments)

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Any:
        """Make an instance from what `to_json` wrote, decoded."""
        try:
            cls.__signature__.bind(**arguments)
        except TypeError as error:
            raise InvalidInput(f"JSON of {cls.__name__} has {sorted(arguments)}: {error}") from None
        return cls(**arguments)

    def _identity(self) -> object:
        """Return the key for equality."""
        return self.arguments

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return hash(self) == hash(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((type(self), self._identity())))
        return self._hash  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.arguments

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a sequence never changes: cannot set {name!r} of {self!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a sequence never changes: cannot delete {name!r} of {self!r}")

    def __repr__(self) -> str:
        return call_repr(type(self), self.arguments)


FAMILIES: Final[dict[str, type[Sequence]]] = {}
"""Every family by the name that stands for it in JSON."""


def call_repr(cls: type[Sequence], arguments: tuple[Any, ...]) -> str:
    """Return the call that makes an instance: what has a default comes by name, and only where it differs."""
    shown = []
    for parameter, argument in zip(cls.__signature__.parameters.values(), arguments, strict=True):
        text = repr([*map(written, argument)] if isinstance(argument, tuple) else written(argument))
        if parameter.default is inspect.Parameter.empty:
            shown.append(text)
        elif argument != parameter.default:
            shown.append(f"{parameter.name}={text}")
    return f"{cls.__name__}({', '.join(shown)})"


def checked_step(step: int) -> int:
    """Return a step as an int, if it is one."""
    try:
        index = operator.index(step)
    except TypeError:
        raise InvalidInput(f"step is {step!r}; expected a whole number") from None
    if index < 0:
        raise InvalidInput(f"step is {step}; steps are counted from 0")
    return index
