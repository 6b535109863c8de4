"""Sequences put together from others, each counting its own steps from 0 where it begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from fractions import Fraction

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.base import FOREVER, Distribution, Open, Part, Piece, Real, Sequence, Whole
from hippotune.sequences.constant import Constant, as_sequence
from hippotune.sequences.curves import line
from hippotune.sequences.laws import grouped
from hippotune.sequences.mixtures import written
from hippotune.sequences.values import Written, exact


class Then(Sequence):
    """sequences[0] up to the first milestone, sequences[1] from it on, …: what `a.then(b, at=k)` makes.

    One inside another is taken apart, so that a long chain is a flat list, and what never comes into force is
    left out.
    """

    __slots__ = ()

    def __init__(
        self,
        sequences: Iterable[Sequence | Written | Open] | Distribution,
        milestones: Iterable[Whole] | Distribution,
    ) -> None:
        listed = [as_sequence(item) for item in checks.several("sequences", sequences)]
        steps = checks.milestones("milestones", milestones, repeats=True)
        if len(listed) != len(steps) + 1:
            raise InvalidInput(
                f"sequences has {len(listed)} items and milestones {len(steps)}; "
                "expected one sequence more than there are milestones"
            )
        parts: list[tuple[int, Sequence]] = []
        for sequence, start, end in zip(listed, (0, *steps), (*steps, FOREVER), strict=True):
            limit = sequence.limit
            if limit is not None and end != FOREVER and limit < end - start:
                raise InvalidInput(f"{sequence!r} has values for {limit} steps, and would need {end - start}")
            parts += [(start + begin, part) for begin, part in _parts(sequence) if start + begin < end]
        super().__init__(tuple(part for _, part in parts), tuple(begin for begin, _ in parts[1:]))

    @property
    def limit(self) -> int | None:
        """The number of steps that there are values for."""
        sequences, milestones = self.arguments
        last = sequences[-1].limit
        return None if last is None else last + (0, *milestones)[-1]

    def part(self, step: int) -> Part:
        """Return the innermost sequence in force at a step."""
        sequences, milestones = self.arguments
        count = bisect_right(milestones, step)
        start = milestones[count - 1] if count else 0
        sequence, origin, end = sequences[count].part(step - start)
        return Part(sequence, origin + start, min(end + start, (*milestones, FOREVER)[count]))

    def _piece(self, step: int) -> Piece:
        return _moved(self.part(step), step)

    def __repr__(self) -> str:
        sequences, milestones = self.arguments
        if not milestones:
            return super().__repr__()
        chain = (f".then({_plain_repr(s)}, at={at})" for s, at in zip(sequences[1:], milestones, strict=True))
        return repr(sequences[0]) + "".join(chain)


class Warmup(Sequence):
    """Up to the first value of `then` in equal steps, reached at step `steps`, where `then` begins.

    The first value is `start_factor` times that target. By default it is 1 / (steps + 1), so that all
    increments are equal and no step is spent at zero: ``Warmup(4, 0.1)`` is 0.02, 0.04, 0.06, 0.08, 0.1, …
    In torch: SequentialLR of LinearLR(start_factor, total_iters=steps) and `then`.
    """

    __slots__ = ()

    def __init__(
        self, steps: Whole, then: Sequence | Written | Open, start_factor: Real | None = None
    ) -> None:
        after = as_sequence(then)
        target = after.value(0)
        if isinstance(target, (bool, str)):
            raise InvalidInput(f"then begins with {target!r}; expected a number to go up to")
        super().__init__(
            checks.whole("steps", steps, least=0),
            after,
            None if start_factor is None else checks.number("start_factor", start_factor, least=0, most=1),
        )

    @property
    def limit(self) -> int | None:
        """The number of steps that there are values for."""
        steps, then, _ = self.arguments
        return None if then.limit is None else then.limit + steps

    def part(self, step: int) -> Part:
        """Return the innermost sequence in force at a step; on the way up it is this one."""
        steps, then, _ = self.arguments
        if step < steps:
            return Part(self, 0, steps)
        sequence, origin, end = then.part(step - steps)
        return Part(sequence, origin + steps, min(end + steps, FOREVER))

    def _piece(self, step: int) -> Piece:
        steps, then, start_factor = self.arguments
        if step >= steps:
            return _moved(self.part(step), step)
        target = exact(then.value(0))
        factor = Fraction(1, steps + 1) if start_factor is None else exact(start_factor)
        return Piece(line(target * factor, target * (1 - factor) / steps), steps)

    def __repr__(self) -> str:
        steps, then, start_factor = self.arguments
        factor = "" if start_factor is None else f", start_factor={start_factor!r}"
        return f"Warmup({steps}, {_plain_repr(then)}{factor})"


class Ahead(Sequence):
    """`sequence` from its step `steps` on: what an absolute schedule is from where a branch begins."""

    __slots__ = ()

    def __init__(self, sequence: Sequence | Written | Open, steps: Whole) -> None:
        whole = as_sequence(sequence)
        skipped = checks.whole("steps", steps, least=0)
        if whole.limit is not None and skipped >= whole.limit:
            raise InvalidInput(
                f"{whole!r} has values for {whole.limit} steps, and none from step {skipped} on"
            )
        super().__init__(whole, skipped)

    @property
    def limit(self) -> int | None:
        """The number of steps that there are values for."""
        sequence, steps = self.arguments
        return None if sequence.limit is None else sequence.limit - steps

    def part(self, step: int) -> Part:
        """Return the innermost sequence in force at a step."""
        whole, steps = self.arguments
        sequence, origin, end = whole.part(step + steps)
        return Part(sequence, origin - steps, end if end == FOREVER else end - steps)

    def _piece(self, step: int) -> Piece:
        return _moved(self.part(step), step)


def ahead(sequence: Sequence, steps: int) -> Sequence:
    """Return a sequence from one of its steps on; one that stays the same is that itself."""
    return sequence if isinstance(sequence, Constant) else Ahead(sequence, steps)


class Substeps(Sequence):
    """`sequence` looked at `parts` times a step, at step + part / parts: its values there, as a tuple.

    Where all values of a step are the same, it is that value. So trials share a step only if they agree in
    all parts of it.
    """

    __slots__ = ()

    def __init__(self, sequence: Sequence | Written | Open, parts: Whole) -> None:
        super().__init__(as_sequence(sequence), checks.whole("parts", parts, least=1))

    @property
    def limit(self) -> int | None:
        """The number of steps that there are values for."""
        limit: int | None = self.arguments[0].limit
        return limit

    def _piece(self, step: int) -> Piece:
        sequence, parts = self.arguments
        law, end = sequence.piece(step)
        return Piece(grouped(law.refined(parts), parts), end)


class Unset(Sequence):
    """No value yet: what a hyper-parameter is before the branch that first names it.

    A study's ``defaults=`` take its place. Without one, no trial can be trained.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    def _piece(self, step: int) -> Piece:
        raise InvalidInput(
            f"there is no value at step {step}: the trunk does not name this hyper-parameter. Name it in the "
            "trunk, or say with Study(defaults={...}) what it is before the branch"
        )


def _moved(part: Part, step: int) -> Piece:
    """Return the piece of a part at a step, moved to where the part begins."""
    law, end = part.sequence.piece(step - part.origin)
    moved = end if end == FOREVER else end + part.origin
    return Piece(law.shifted(part.origin), min(moved, part.end))


def _parts(sequence: Sequence) -> list[tuple[int, Sequence]]:
    """Return what a sequence is a chain of, each with its first step."""
    if not isinstance(sequence, Then):
        return [(0, sequence)]
    sequences, milestones = sequence.arguments
    return list(zip((0, *milestones), sequences, strict=True))


def _plain_repr(sequence: Sequence) -> str:
    return repr(written(sequence.arguments[0]) if isinstance(sequence, Constant) else sequence)
