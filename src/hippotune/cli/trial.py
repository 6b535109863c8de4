"""One trial of a study, as ``hippo show STUDY --trial N`` prints it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hippotune import short
from hippotune.cli.columns import aligned
from hippotune.history.logged import Logged
from hippotune.history.trial import TrialHistory

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "·"
_WIDTH = 40


def lines(trial: TrialHistory, logged: Logged) -> Iterator[str]:
    """Yield a trial's config, its metrics by step, and what its training logged."""
    asked = short.plural(trial.asked, "step")
    yield f"trial {trial.number}, {trial.state}: trained {trial.trained:,} of {asked}"
    yield from (f"  {name} = {short.sequence(of)}" for name, of in trial.config.items())
    if measured := trial.metrics():
        names = list(dict.fromkeys(name for metrics in measured.values() for name in metrics))
        rows = (
            (f"{step:,}", *(short.metric(metrics[name]) if name in metrics else "" for name in names))
            for step, metrics in measured.items()
        )
        yield ""
        yield from aligned(("step", *names), rows, left=())
    if logged:
        heads = ("logged", "steps", "last", "min", "max", "")
        yield ""
        yield from aligned(heads, [_row(name, numbers) for name, numbers in logged.items()], left=(0, 5))
    if trial.error is not None:
        yield ""
        yield trial.error.rstrip()


def _row(name: str, numbers: Sequence[tuple[int, float]]) -> tuple[str, ...]:
    values = [number for _, number in numbers]
    known = [value for value in values if not math.isnan(value)]
    least, most = (short.metric(min(known)), short.metric(max(known))) if known else ("", "")
    return name, f"{len(values):,}", short.metric(values[-1]), least, most, sparkline(values)


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as a row of bars, each the mean of those that share its place; a dot is no number."""
    places = min(len(values), _WIDTH)
    shares = [values[n * len(values) // places : (n + 1) * len(values) // places] for n in range(places)]
    means = [_mean(share) for share in shares]
    known = [mean for mean in means if mean is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    # Halves, because the difference of two floats may be infinite.
    span = high / 2 - low / 2
    return "".join(
        _GAP
        if mean is None
        else _BARS[min(int((mean / 2 - low / 2) / span * len(_BARS)), len(_BARS) - 1)]
        if span
        else _BARS[0]
        for mean in means
    )


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return sum(value / len(finite) for value in finite) if finite else None
