"""A config: a sequence for every hyper-parameter.

Configs are compared and asked for their values for every trial of a study, so both are made cheap: names are
sorted once and shared between configs, and sequences that are one object are never looked into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.base import Sequence
from hippotune.sequences.combined import Substeps, Then, Unset, ahead
from hippotune.sequences.constant import Constant, as_sequence
from hippotune.sequences.first_difference import first_difference
from hippotune.sequences.mixtures import written
from hippotune.sequences.values import Value, Written, same, tagged

_names: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""One tuple of names for all configs that have these names: they are told apart by identity first."""


ConfigLike = Mapping[str, Any]
"""A config, or what one is made of: sequences and values (see `Written`) by name."""


class Config(Mapping[str, Sequence]):
    """An immutable mapping from names to sequences, sorted by name. Plain values become constants."""

    __slots__ = ("_hash", "_sequences", "names")

    names: tuple[str, ...]
    _sequences: tuple[Sequence, ...]
    _hash: int | None

    def __init__(self, values: ConfigLike) -> None:
        if not isinstance(values, Mapping):
            raise InvalidInput(f"a config is made from a mapping of names to values; got {values!r}")
        for name in values:
            if not isinstance(name, str) or not name:
                raise InvalidInput(f"hyper-parameter name is {name!r}; expected a non-empty string")
        names = tuple(sorted(values))
        keep = object.__setattr__
        keep(self, "names", _names.setdefault(names, names))
        keep(self, "_sequences", tuple([_sequence(name, values[name]) for name in names]))
        keep(self, "_hash", None)

    @classmethod
    def of(cls, given: ConfigLike) -> Config:
        """Return a config as it is, and anything else as the config that is made of it."""
        return given if isinstance(given, Config) else cls(given)

    def values(self, step: int) -> dict[str, Value]:  # type: ignore[override]
        """Return every hyper-parameter's value at a step."""
        return {name: s.value(step) for name, s in zip(self.names, self._sequences, strict=True)}

    def key(self, step: int) -> tuple[object, ...]:
        """Return something hashable that is equal for configs with equal names and values at the step."""
        return (
            self.names,
            *[
                value if (value := sequence.value(step)).__class__ is not bool else tagged(value)
                for sequence in self._sequences
            ],
        )

    def changes(self, step: int) -> dict[str, Value]:
        """Return the values that differ from those one step before; at step 0 all of them."""
        now = self.values(step)
        if step == 0:
            return now
        before = self.values(step - 1)
        return {name: value for name, value in now.items() if not same(value, before[name])}

    def first_difference(self, other: Config, until: int) -> int | None:
        """Return the first step before `until` at which any value differs; None where there is none."""
        if self is other or until <= 0:
            return None
        if self.names is not other.names:
            return 0
        step = until
        for mine, others in zip(self._sequences, other._sequences, strict=True):
            if mine is not others and (earlier := first_difference(mine, others, step)) is not None:
                step = earlier
        return step if step < until else None

    def branch(self, at: int, *, absolute: bool = False, **changes: Sequence | Written) -> Config:
        """Return the config that is this one up to step `at`, with some values changed from there.

        New sequences count their steps from 0 at `at`; with `absolute`, from the start of the trial:
        ``trunk.branch(at=14_400, lr=Linear(1e-3, 0, 1_600), mix="math")``. A hyper-parameter that this config
        does not name has no value before `at`, unless the study's ``defaults=`` give it one.
        """
        step = checks.whole("at", at, least=0)
        if not changes:
            raise InvalidInput(f"nothing changes at step {step}; expected hyper-parameters with new values")
        changed = {name: _sequence(name, value) for name, value in changes.items()}
        if absolute:
            changed = {name: ahead(sequence, step) for name, sequence in changed.items()}
        return Config(
            {
                **self,
                **{name: self.get(name, Unset()).then(after, at=step) for name, after in changed.items()},
            }
        )

    def completed(self, defaults: Mapping[str, Sequence]) -> Config:
        """Return the config with a value for everything that it leaves unset, before a branch or at all."""
        if self.names == tuple(sorted(defaults.keys() | self.names)) and not any(
            map(_is_unset, self._sequences)
        ):
            return self
        values = dict(self)
        for name in sorted(defaults.keys() | self.names):
            if name not in values:
                values[name] = defaults[name]
            elif _is_unset(values[name]):
                if name not in defaults:
                    first = values[name].arguments[1][0]
                    raise InvalidInput(
                        f"hyper-parameter {name!r} has no value before step {first}: the trunk does not name "
                        f"it. Name it there, or pass Study(defaults={{{name!r}: ...}})"
                    )
                values[name] = defaults[name].then(*_after_unset(values[name]))
        return Config(values)

    def refined(self, parts: int) -> Config:
        """Return the config looked at `parts` times a step; values that stay are as they were."""
        if parts == 1:
            return self
        finer = (
            sequence if isinstance(sequence, (Constant, Substeps)) else Substeps(sequence, parts)
            for sequence in self._sequences
        )
        return Config(dict(zip(self.names, finer, strict=True)))

    @property
    def limit(self) -> int | None:
        """The number of steps that there are values for; None where there are values for every step."""
        return min((s.limit for s in self._sequences if s.limit is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return what `Config.from_json` makes this config from; constants are written as their values."""
        return {
            name: sequence.arguments[0] if isinstance(sequence, Constant) else sequence.to_json()
            for name, sequence in self.items()
        }

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Config:
        """Make a config from what `to_json` returned."""
        from hippotune.sequences.encoding import from_json

        if not isinstance(obj, Mapping):
            raise InvalidInput(f"a config is read from a JSON object; got {obj!r}")
        return cls({name: from_json(value) for name, value in obj.items()})

    def __getitem__(self, name: str) -> Sequence:
        try:
            return self._sequences[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Config):
            return NotImplemented
        return self.names is other.names and self._sequences == other._sequences

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.names, self._sequences)))
        return self._hash  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (dict(self.items()),)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a config never changes: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a config never changes: cannot delete {name!r}")

    def __repr__(self) -> str:
        shown = (
            f"{name!r}: {written(sequence.arguments[0]) if isinstance(sequence, Constant) else sequence!r}"
            for name, sequence in self.items()
        )
        return f"Config({{{', '.join(shown)}}})"


def _is_unset(sequence: Sequence) -> bool:
    return isinstance(sequence, Then) and isinstance(sequence.arguments[0][0], Unset)


def _after_unset(sequence: Sequence) -> tuple[Sequence, int]:
    """Return what follows where a value is set first, and where that is."""
    (_, *sequences), (at, *milestones) = sequence.arguments
    return (Then(sequences, [step - at for step in milestones]) if milestones else sequences[0]), at


def _sequence(name: str, value: object) -> Sequence:
    try:
        return as_sequence(value)
    except InvalidInput as error:
        raise InvalidInput(f"hyper-parameter {name!r}: {error}") from None
