"""A record of real training, to be replayed in virtual time: from a study, a table, or a file.

A file is gzipped JSON, a line for every config: the steps at which it was measured, and the values of each
metric there. What a config shares with one before it is not repeated.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.plan.facts import Position
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config

if TYPE_CHECKING:
    from hippotune.store.base import Store
    from hippotune.study.report import Report

Metrics = Mapping[str, float]
Table = Mapping[Config, Mapping[int, Metrics]]

_FORMAT: Final = "hippo curves 1"


class Recorded:
    """Metrics measured before: a report, a plan, a store, a table {config: {step: metrics}}, or a file.

    A config is found by its values, however it is written. At steps that were not measured the answer is
    refused; with ``interpolate=True`` it lies on the straight line between the measured steps around it.
    Beyond what was measured it is always refused.
    """

    def __init__(
        self, source: Report | Plan | Store | Table | str | PathLike[str], *, interpolate: bool = False
    ) -> None:
        self._plan = Plan()
        self._interpolate = checks.yes_or_no("interpolate", interpolate)
        for config, step, metrics in _records(source):
            node, _ = self._plan.place(config, step)
            self._plan.measure(Position(node.holder(step).id, step), metrics)
        if not self._plan.order:
            raise InvalidInput(f"there are no metrics in {source!r}; expected a record of at least one trial")

    def __call__(self, config: Config, step: int, names: frozenset[str] = frozenset()) -> Metrics:
        """Return what was measured."""
        node, _ = self._plan.place(config, step)
        known = node.holder(step).metrics.get(step)
        if known is not None:
            return known[1]
        measured: dict[int, Metrics] = {}
        reach = math.inf
        for above in node.lineage():
            measured.update((at, entry[1]) for at, entry in above.metrics.items() if at <= reach)
            reach = above.start
        return self._between(config, step, measured)

    def write(self, path: str | PathLike[str], digits: int = 6) -> Path:
        """Write everything to a file that `Recorded` reads, with this many significant digits."""
        file = Path(path)
        with file.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
            packed.write(f"{json.dumps({'format': _FORMAT})}\n".encode())
            for node in self._plan.nodes:
                if node.metrics:
                    packed.write(f"{json.dumps(_line(node.config, node.metrics, digits))}\n".encode())
        return file

    def _between(self, config: Config, step: int, measured: Mapping[int, Metrics]) -> Metrics:
        before = max((at for at in measured if at < step), default=None)
        after = min((at for at in measured if at > step), default=None)
        if not self._interpolate or before is None or after is None:
            steps = ", ".join(map(str, sorted(measured))) or "none"
            hint = (
                "" if self._interpolate else "; Recorded(…, interpolate=True) fills in steps between others"
            )
            raise InvalidInput(
                f"no metrics were recorded at step {step} of {config}; its steps are {steps}{hint}"
            )
        share = (step - before) / (after - before)
        low, high = measured[before], measured[after]
        return {name: low[name] + share * (high[name] - low[name]) for name in low if name in high}


def _line(config: Config, measured: Mapping[int, tuple[int, Metrics]], digits: int) -> dict[str, Any]:
    steps = sorted(measured)
    names = sorted({name for _, metrics in measured.values() for name in metrics})
    values = {name: [measured[step][1].get(name) for step in steps] for name in names}
    return {
        "config": config.to_json(),
        "steps": steps,
        "metrics": {name: [_rounded(value, digits) for value in column] for name, column in values.items()},
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def _records(source: Any) -> Iterator[tuple[Config, int, Metrics]]:
    from hippotune.store.base import Store

    if isinstance(source, Store):
        source = Plan.replay(source.read())
    measured: Iterable[tuple[Config, Mapping[int, Metrics]]]
    if isinstance(source, str | PathLike):
        measured = _read(Path(source))
    elif isinstance(source, Plan):
        measured = (
            (node.config, {step: metrics for step, (_, metrics) in node.metrics.items()})
            for node in source.nodes
        )
    elif isinstance(trials := getattr(source, "trials", None), list | tuple):  # a report
        measured = ((trial.config, trial.metrics) for trial in trials)
    elif isinstance(source, Mapping):
        measured = (
            (config if isinstance(config, Config) else Config(config), metrics)
            for config, metrics in source.items()
        )
    else:
        raise InvalidInput(
            f"metrics is {source!r}; expected a function of (config, step), a table "
            "{config: {step: metrics}}, a report, a plan, a store or a file that Recorded.write wrote"
        )
    for config, by_step in measured:
        for step, metrics in sorted(by_step.items()):
            yield config, step, metrics


def _read(file: Path) -> Iterator[tuple[Config, dict[int, Metrics]]]:
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            if json.loads(next(lines)) != {"format": _FORMAT}:
                raise ValueError("another format")
            for line in lines:
                curve = json.loads(line)
                metrics: dict[int, Metrics] = {
                    step: {
                        name: values[at]
                        for name, values in curve["metrics"].items()
                        if values[at] is not None
                    }
                    for at, step in enumerate(curve["steps"])
                }
                yield Config.from_json(curve["config"]), metrics
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise InvalidInput(f"{file} is no file that Recorded.write wrote: {error}") from error
