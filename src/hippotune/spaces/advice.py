"""How configs could share more: schedules rewritten, and the merge rate that there would be.

A change is only worth advising if it asks the same question in another way: all trials that differ from each
other still do. What it comes to is not guessed: the rewritten configs are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from hippotune.errors import InvalidInput
from hippotune.sequences.base import Sequence as Schedule
from hippotune.sequences.combined import Then, Warmup
from hippotune.sequences.config import Config
from hippotune.sequences.cycles import Cosine
from hippotune.sequences.decays import Linear, MultiStep, Piecewise, Polynomial
from hippotune.sequences.stable import WSD, WSDS
from hippotune.spaces.sharing import outcome

_NOTICEABLE = 1.05
_MOST_LISTED = 4

Asks = Sequence[tuple[Config, int]]
Rewrite = Callable[[Schedule], Schedule]


class Advice(NamedTuple):
    """What to change, and the merge rate that it gives."""

    text: str
    merge_rate: float


def advise(asks: Asks) -> list[Advice]:
    """Return the changes that would raise the merge rate of these trials noticeably, the best first."""
    configs, lengths = [config for config, _ in asks], [length for _, length in asks]
    now = outcome(configs, lengths)
    found: list[Advice] = []
    for text, changed in _changes(configs):
        then = outcome(changed, lengths)
        if then.distinct == now.distinct and then.merge_rate > now.merge_rate * _NOTICEABLE:
            found.append(Advice(text, then.merge_rate))
    return sorted(found, key=lambda advice: -advice.merge_rate)


def _changes(configs: Sequence[Config]) -> Iterator[tuple[str, list[Config]]]:
    """Yield what could be changed: in words, and as configs."""
    names = sorted({name for config in configs for name in config})
    schedules = {name: {config[name] for config in configs if name in config} for name in names}
    for name in names:
        if len(lengths := sorted(set(filter(None, map(_warmup, schedules[name]))))) > 1:
            text = f"{name}: a warm-up of {lengths[-1]:,} steps for all (now {_listed(lengths)})"
            yield text, _rewritten(configs, [name], partial(_with_warmup, steps=lengths[-1]))
        if len([each for each in schedules[name] if _horizon(each)]) > 1:
            horizons = sorted(set(filter(None, map(_horizon, schedules[name]))))
            text = f"{name}: a WSD that decays in its last tenth, not at once (now until {_listed(horizons)})"
            yield text, _rewritten(configs, [name], _stable)
    several = [name for name in names if any(map(_milestones, schedules[name]))]
    for together in [*([name] for name in several), *([several] if len(several) > 1 else [])]:
        chains = [_milestones(each) for name in together for each in schedules[name]]
        latest = _latest(chains)
        if any(chain and chain != latest[len(chain)] for chain in chains):
            steps = sorted({step for chain in chains for step in chain})
            common = sorted({step for chain in latest.values() for step in chain})
            text = f"{', '.join(together)}: changes at common steps, {_listed(common)} (now {_listed(steps)})"
            yield text, _rewritten(configs, together, partial(_moved, to=latest))


def _rewritten(configs: Sequence[Config], names: Iterable[str], rewrite: Rewrite) -> list[Config]:
    """Return configs with some of their schedules rewritten; many have few of them."""
    known: dict[Schedule, Schedule] = {}

    def once(schedule: Schedule) -> Schedule:
        if schedule not in known:
            try:
                known[schedule] = rewrite(schedule)
            except InvalidInput:  # such as a warm-up that leaves no room for the decay
                known[schedule] = schedule
        return known[schedule]

    chosen = set(names)
    return [Config({name: once(s) if name in chosen else s for name, s in c.items()}) for c in configs]


def _first(schedule: Schedule) -> Schedule:
    """Return what a schedule begins with, before any branch."""
    return schedule.arguments[0][0] if isinstance(schedule, Then) else schedule


def _beginning(schedule: Schedule, first: Schedule) -> Schedule:
    """Return a schedule that begins with another one, up to its first branch."""
    if not isinstance(schedule, Then):
        return first
    sequences, milestones = schedule.arguments
    return Then([first, *sequences[1:]], milestones)


def _parts(schedule: Schedule) -> tuple[int, Schedule]:
    """Return how long a schedule warms up, and what comes then."""
    return schedule.arguments[:2] if isinstance(schedule, Warmup) else (0, schedule)


# Warm-ups.


def _warmup(schedule: Schedule) -> int | None:
    match _first(schedule):
        case Warmup(arguments=(steps, *_)) | WSD(arguments=(_, _, steps, *_)):
            return int(steps)
        case WSDS(arguments=(_, _, _, steps, *_)):
            return int(steps)
    return None


def _with_warmup(schedule: Schedule, steps: int) -> Schedule:
    first = _first(schedule)
    if not _warmup(first):
        return schedule
    place = {Warmup: 0, WSD: 2, WSDS: 3}[type(first)]
    arguments = [*first.arguments[:place], steps, *first.arguments[place + 1 :]]
    return _beginning(schedule, type(first)(*arguments))


# Decays that begin at once.


def _decay(schedule: Schedule) -> tuple[float, float, int, str] | None:
    """Return where a decay begins and ends, how long it is, and the shape of `Decay` that is most like it."""
    match schedule:
        case Cosine(arguments=(value, steps, end)):
            return value, end, steps, "cosine"
        case Linear(arguments=(value, end, steps)):
            return value, end, steps, "linear"
        case Polynomial(arguments=(value, steps, power, end)):
            return value, end, steps, "linear" if power == 1 else "1-sqrt"
    return None


def _horizon(schedule: Schedule) -> int | None:
    """Return the step that a decay, which begins at once or after a warm-up, ends at."""
    warmup, then = _parts(schedule)
    found = _decay(then)
    return None if found is None else warmup + found[2]


def _stable(schedule: Schedule) -> Schedule:
    warmup, then = _parts(schedule)
    if (found := _decay(then)) is None:
        return schedule
    value, end, steps, shape = found
    return WSD(value, warmup + steps, warmup, shape=shape, end=end)


# Milestones.


def _milestones(schedule: Schedule) -> tuple[int, ...]:
    warmup, then = _parts(schedule)
    match then:
        case MultiStep(arguments=(_, milestones, _)) | Piecewise(arguments=(_, milestones)):
            return tuple(warmup + step for step in milestones)
    return ()


def _moved(schedule: Schedule, to: dict[int, tuple[int, ...]]) -> Schedule:
    if not (chain := _milestones(schedule)):
        return schedule
    warmup, then = _parts(schedule)
    value, _, *rest = then.arguments
    moved = type(then)(value, [step - warmup for step in to[len(chain)]], *rest)
    return Warmup(warmup, moved, *schedule.arguments[2:]) if isinstance(schedule, Warmup) else moved


def _latest(chains: Iterable[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Return, for each number of changes, the latest step of each of them."""
    latest: dict[int, tuple[int, ...]] = {}
    for chain in chains:
        known = latest.get(len(chain), chain)
        latest[len(chain)] = tuple(map(max, known, chain))
    return latest


def _listed(numbers: Sequence[int]) -> str:
    more = ", …" if len(numbers) > _MOST_LISTED else ""
    return ", ".join(f"{number:,}" for number in numbers[:_MOST_LISTED]) + more
