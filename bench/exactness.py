"""Are shared trials what they are alone? Hundreds of small trainers, each with state of another kind.

Every trainer of `exactness_trainers` is trained with four configs that branch at steps 2 and 4: by a plain
loop, each trial in a process of its own, and by plain studies: shared, not shared, on two workers, and in a
fresh process that goes on from what the first study kept. All metrics are compared bit for bit, clocks apart.
A trainer that cannot be exact has to be named by the study: by its identity, its rehearsal or an audit.

Workers are forks of a process that has imported everything; with ``--fresh`` they are interpreters that start
from nothing, which takes several times as long.

Bars:
  at least 150 trainers;
  none is silently wrong: no study ends with metrics that the plain loop does not give;
  none that can be exact is refused, and none of them is warned of, unless something on it is volatile;
  each error and each warning names what it is about: an attribute, a global, a function; of state that no
  object leads to, where to look for it.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import logging
import os
import pkgutil
import selectors
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import hippotune as hippo
from exactness_alone import Measured, bits, fork, in_a_fork, trained_alone
from exactness_trainers import CONFIGS, LATER
from exactness_workers import warm_workers
from harness import Bar, Figures, run
from hippotune.tuners import TrialGroup, Tuner

# The order in which numbers are summed up depends on the number of threads, and that of sets on the hashes.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}

Outcome = Literal["exact", "volatile", "named", "unclear", "wrong"]
Trials = dict[str, Measured]
BARS = [
    Bar("trainers", "at least", 150),
    Bar("wrong", "at most", 0),
    Bar("refused", "at most", 0),
    Bar("warned_without_need", "at most", 0),
    Bar("unclear", "at most", 0),
]
_MODES = ("shared", "not shared", "two workers", "fresh process")
_LATER = "later"
_SHOWN = 1000
_NOT_USED = ("ray", "optuna", "plots", "cli", "__main__")  # parts of the package that no study here needs


@dataclass
class Finding:
    """What came of one trainer: an outcome for every study, what was said, and what came of all of it."""

    name: str
    cause: str
    expect: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> Outcome:
        """Return the worst of all."""
        outcomes: tuple[Outcome, ...] = ("wrong", "unclear", "named", "volatile")
        return next((outcome for outcome in outcomes if outcome in self.outcomes.values()), "exact")


class Everything(Tuner):
    """Asks for all configs at once, with their evaluations along the way."""

    metric, mode = "loss", "min"

    async def run(self, trials: hippo.tuners.Trials) -> None:
        for config, steps in CONFIGS.values():
            trials.submit(TrialGroup.of([config], steps[-1], steps[0] if len(steps) > 1 else None))
        while trials.open:
            await trials.next()


def references(trainer: type) -> Trials:
    """Return what every config measures by a plain loop, each in a process of its own."""
    asked = {**CONFIGS, _LATER: (LATER[0], (LATER[1],))}
    return {
        name: in_a_fork(partial(trained_alone, trainer, config, steps))
        for name, (config, steps) in asked.items()
    }


def studied(trainer: Any, mode: str, home: Path) -> Trials:
    """Return what a study measures; `HippoError` where it refuses."""
    executor = hippo.Local(workers=2 if mode == "two workers" else 1, threads=1)
    where = home / ("shared" if mode == "fresh process" else mode)
    with hippo.Study(
        "exactness", trainer, home=where, executor=executor, share=mode != "not shared"
    ) as study:
        if mode == "fresh process":
            return {_LATER: {LATER[1]: bits(study.eval(*LATER))}}
        report = study.tune(Everything(), progress=False)
    if report.failed:
        raise hippo.TrialFailed(str(report.failed[0].error))
    named = zip(CONFIGS.items(), report.trials, strict=True)
    return {
        name: {step: bits(trial.metrics[step]) for step in steps if step in trial.metrics}
        for (name, (_, steps)), trial in named
    }


def study_or_error(trainer: Any, mode: str, home: Path) -> tuple[Trials | str, str]:
    """Return what a study measures, or its error; and what it says that differs each time."""
    said = Said()
    logging.getLogger("hippotune").addHandler(said)
    try:
        return studied(trainer, mode, home), " ".join(said.texts)
    except hippo.HippoError as error:
        return f"{type(error).__name__}: {error}", " ".join(said.texts)


class Said(logging.Handler):
    """Keeps what is said of volatile things."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "volatile = {" in record.getMessage():
            self.texts.append(record.getMessage())


def examined(trainer: Any, options: argparse.Namespace) -> Finding:
    """Run everything for one trainer. Nothing of it runs in this process: it forks for each part."""
    finding = Finding(trainer.__name__, trainer.cause, trainer.expect)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        alone = references(trainer)
        with nullcontext() if options.fresh else warm_workers(Path(folder)):
            for mode in options.modes:
                if mode == "fresh process" and finding.outcomes.get("shared") in ("named", "unclear"):
                    continue  # there is nothing to go on from
                got, warned = in_a_fork(partial(study_or_error, trainer, mode, Path(folder)))
                finding.outcomes[mode], said = compared(alone, got, warned, trainer)
                if said or warned:
                    finding.said[mode] = said or warned
    return finding


def compared(alone: Trials, got: Trials | str, warned: str, trainer: Any) -> tuple[Outcome, str]:
    names = [name for name in (trainer.named, trainer.found) if name] or [""]
    if isinstance(got, str):
        return ("named" if any(name in got for name in names) else "unclear"), got
    for name, measured in got.items():
        if _without_clocks(measured) != _without_clocks(alone[name]):
            return "wrong", f"{name}: alone {_decimal(alone[name])}, in the study {_decimal(measured)}"
    if not warned:
        return "exact", ""
    return ("volatile" if any(name in warned for name in names) else "unclear"), warned


def _without_clocks(measured: Measured) -> Measured:
    return {
        step: {name: value for name, value in metrics.items() if name != "seconds"}
        for step, metrics in measured.items()
    }


def _decimal(measured: Measured) -> dict[int, dict[str, float]]:
    return {step: {n: float.fromhex(v) for n, v in metrics.items()} for step, metrics in measured.items()}


def in_forks(calls: dict[str, Callable[[], Any]], jobs: int) -> Iterator[tuple[str, Any]]:
    """Yield what each call returns in a fork of its own, or a RuntimeError, as they finish."""
    waiting = list(calls.items())
    with selectors.DefaultSelector() as running:
        while waiting or running.get_map():
            while waiting and len(running.get_map()) < jobs:
                name, call = waiting.pop(0)
                pipe, answer = fork(call)
                running.register(pipe, selectors.EVENT_READ, (name, answer))
            for key, _ in running.select():
                running.unregister(key.fd)
                name, answer = key.data
                try:
                    yield name, answer()
                except RuntimeError as error:
                    yield name, error


def chosen(options: argparse.Namespace) -> list[Any]:
    import exactness_trainers

    return [
        trainer
        for trainer in exactness_trainers.ALL
        if (not options.only or trainer.__name__ in options.only)
        and (not options.cause or trainer.cause in options.cause)
    ]


def measure(options: argparse.Namespace) -> Figures:
    trainers = chosen(options)
    began = time.perf_counter()
    calls = {trainer.__name__: partial(examined, trainer, options) for trainer in trainers}
    findings: list[Finding] = []
    broken: dict[str, str] = {}
    for number, (name, found) in enumerate(in_forks(calls, options.jobs), start=1):
        if isinstance(found, Finding):
            findings.append(found)
            outcome: str = found.result
        else:
            broken[name], outcome = str(found), "broken"
        if options.verbose or outcome in ("wrong", "broken", "unclear"):
            said = f"\n{broken[name]}" if name in broken else ""
            print(f"{number:4} of {len(calls)}  {name}: {outcome}{said}", file=sys.stderr, flush=True)
    for line in table(findings):
        print(line, file=sys.stderr)
    for line in listed(findings, broken, options.verbose):
        print(line, file=sys.stderr)
    if options.details:
        details = [{**asdict(finding), "result": finding.result} for finding in findings]
        Path(options.details).write_text(json.dumps(details, indent=2))
    results = Counter(finding.result for finding in findings)
    return {
        "trainers": len(findings),
        "exact": results["exact"],
        "volatile": results["volatile"],
        "named": results["named"],
        "wrong": results["wrong"] + len(broken),
        "unclear": results["unclear"],
        "refused": sum(map(is_refused, findings)),
        "warned_without_need": sum(it.expect == "exact" and it.result == "volatile" for it in findings),
        "seconds": time.perf_counter() - began,
    }


def is_refused(finding: Finding) -> bool:
    return finding.expect in ("exact", "volatile") and finding.result not in ("exact", "volatile")


def table(findings: list[Finding]) -> Iterator[str]:
    by_cause: dict[str, Counter[str]] = defaultdict(Counter)
    for finding in findings:
        by_cause[finding.cause][finding.result] += 1
    width = max(map(len, by_cause), default=0)
    columns = ("exact", "volatile", "named", "unclear", "wrong")
    yield f"{'cause':<{width}}  trainers  " + "  ".join(f"{column:>8}" for column in columns)
    for cause, results in by_cause.items():
        counts = "  ".join(f"{results[column]:>8}" for column in columns)
        yield f"{cause:<{width}}  {results.total():>8}  {counts}"


def listed(findings: list[Finding], broken: dict[str, str], verbose: bool) -> Iterator[str]:
    for finding in findings:
        if verbose or finding.result in ("wrong", "unclear") or is_refused(finding):
            yield f"{finding.name} ({finding.cause}; expected: {finding.expect}): {finding.outcomes}"
            for mode, said in finding.said.items():
                yield f"    {mode}: {said[:_SHOWN]}"
    for name in broken:
        yield f"{name} could not be examined"


def import_all() -> None:
    """Import here what every fork would have to import by itself, and keep their collectors away from it."""
    import torch
    import torch._dynamo  # for the first step of any optimizer

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(hippo.__path__, "hippotune.", onerror=lambda name: None):
        if not any(part in module.name for part in _NOT_USED):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these trainers only")
    parser.add_argument("--cause", nargs="+", help="trainers of these causes only")
    parser.add_argument("--modes", nargs="+", choices=_MODES, default=_MODES, help="these studies only")
    parser.add_argument("--jobs", type=int, default=2, help="trainers at the same time (2)")
    parser.add_argument("--fresh", action="store_true", help="start every worker as a new interpreter")
    parser.add_argument("--details", metavar="FILE", help="write what came of every trainer to a file")
    parser.add_argument("--verbose", action="store_true", help="show what came of every trainer")


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ENVIRONMENT)
    import_all()
    run(__doc__ or "", measure, BARS, arguments)
