"""How soon searches find good configs, on curves of real networks that are replayed in virtual time.

Every search runs inside Hippo with sharing on, one worker, on the recorded curves (bench/record.py) of one
training seed. What it chooses is judged by the other training seeds: its regret is its mean loss there over
that of the best config of the space. Searches choose the best that they have measured, and Lazy what it
recommends; the regret of its best stands beside it. The gap of the best is the same on the training seed that
was searched. Lazy's defaults were chosen on training seed 0, so searches run on the others; a space with
fewer than two recorded training seeds is left out. What counts is found within the steps that TPE trained,
but for halving, which has its own. Searches of one seed are compared in pairs; intervals are
the middle 95 % of 4,000 bootstrap means. Steps are those that were trained; worker-seconds count loads (2
steps' time), saves (half a step) and evaluations (a fifth) too.

Bars:
* Lazy finds TPE's final best with at most half of TPE's steps, and of its worker-seconds, on the spaces of
  schedules (digits, mnist: Table 2; letters: WSD). Where a run never gets there, all that it spent counts.
* Lazy is nowhere worse than random search, beyond the interval.
* State rungs are nowhere worse than trial rungs, beyond the interval, and better where schedules part late
  (letters), in successive halving of the whole grid, as in the Hippo paper (15 to 120 steps, by four). The
  grid's values come in an order that is drawn by the seed: trial rungs prefer those that are written first.

    python bench/search.py [--seeds 20] [--space digits] [--processes 2] [--check]
"""

from __future__ import annotations

import argparse
import math
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy and SciPy read it

import numpy as np
import optuna

import harness
import hippotune as hippo
from curve_spaces import METRIC, SEEDS, SPACES
from harness import Bar
from hippotune.tuners import Result, TrialGroup, Trials, Tuner
from hippotune.tuners.space_tuner import SpaceTuner

optuna.logging.set_verbosity(optuna.logging.WARNING)

FOLDER = Path(__file__).parent / "curves"
TRIALS = 40
COSTS = {"load": 2.0, "save": 0.5, "evaluate": 0.2}
SCHEDULES = ("digits", "mnist", "letters")
FIRST_RUNG, REDUCTION = 15, 4


class NotTrained(hippo.Trainer):
    """In virtual time nothing is trained."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        pass

    def train(self) -> None:
        pass

    def evaluate(self) -> Mapping[str, float]:
        return {}


@dataclass
class Run:
    """What a search found, when: steps trained, worker-seconds, loss, config; the best first of its time."""

    found: list[tuple[int, float, float, hippo.Config]] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    recommended: hippo.Config | None = None

    def best(self, steps: float = math.inf) -> tuple[float, hippo.Config] | None:
        """Return the best loss that was found within so many steps, and its config."""
        found = ((loss, config) for at, _, loss, config in self.found if at <= steps)
        return min(found, key=lambda each: each[0], default=None)

    def until(self, loss: float) -> tuple[float, float]:
        """Return the steps and the worker-seconds until a loss was found; all, where it never was."""
        reached = ((at, seconds) for at, seconds, each, _ in self.found if each <= loss)
        return next(reached, (self.steps, self.seconds))


class Traced(SpaceTuner):
    """Another tuner, with notes of what it has heard at the last step, and what was spent by then."""

    def __init__(self, tuner: Tuner, space: str, run: Run) -> None:
        super().__init__(SPACES[space].space, METRIC, "min", SPACES[space].steps)
        self._tuner, self._run = tuner, run

    async def run(self, trials: Trials) -> None:
        engine = trials._loop.engine
        hear = trials.next

        async def note() -> Result:
            result = await hear()
            if result.step == self.max_steps and result.metrics is not None:
                now = trials.timing().now
                self._run.found.append((engine.trained, now, result.metrics[METRIC], result.trial.config))
            return result

        trials.next = note
        await self._tuner.run(trials)


class DepthFirst(hippo.GridSearch):
    """A grid in one trial group, drawn in some order, as far as the steps go; the engine goes depth first."""

    def __init__(self, *args: Any, steps: int, seed: int) -> None:
        super().__init__(*args)
        self.steps, self.seed = steps, seed

    async def run(self, trials: Trials) -> None:
        order = np.random.default_rng(self.seed).permutation(len(self.space))
        configs = self.configs()
        trials.submit(TrialGroup.of([configs[place] for place in order], self.max_steps))
        while trials.open and trials._loop.engine.trained < self.steps:
            await trials.next()


class Halving(hippo.SuccessiveHalving):
    """Halving of a whole grid, whose values are written in an order that the seed draws."""

    def configs(self) -> list[hippo.Config]:
        places: defaultdict[Hashable, float] = defaultdict(np.random.default_rng(self.seed).random)

        def key(config: hippo.Config) -> list[float]:
            parts = [(type(each).__name__, *each.arguments) for _, each in sorted(config.items())]
            return [places[at, str(part)] for each in parts for at, part in enumerate(each)]

        return sorted(super().configs(), key=key)


class Group(hippo.RandomSearch):
    """Random search, heard one by one."""

    async def run(self, trials: Trials) -> None:
        trials.submit(TrialGroup.of(self.configs(), self.max_steps))
        while trials.open:
            await trials.next()


Make = Callable[[str, int, int], Tuner]


def searches() -> dict[str, Make]:
    """Return the searches by name: made for a space, a seed, and the steps that TPE took with that seed."""

    def of(kind: Callable[..., Tuner], **more: Any) -> Make:
        def make(space: str, seed: int, steps: int) -> Tuner:
            curves = SPACES[space]
            given = {
                name: value(space, seed, steps) if callable(value) else value for name, value in more.items()
            }
            return kind(curves.space, METRIC, "min", max_steps=curves.steps, seed=seed, **given)

        return make

    def sampler(space: str, seed: int, steps: int) -> optuna.samplers.TPESampler:
        return optuna.samplers.TPESampler(seed=seed)

    def budget(space: str, seed: int, steps: int) -> int:
        return steps

    def halving(kind: Callable[..., Tuner], rungs: str, **more: Any) -> Make:
        def make(space: str, seed: int, steps: int) -> Tuner:
            curves = SPACES[space]
            given = {"min_steps": FIRST_RUNG, "reduction": REDUCTION, "rungs": rungs, "seed": seed}
            given |= {name: value(space, seed, steps) for name, value in more.items()}
            return kind(curves.space, METRIC, "min", max_steps=curves.steps, **given)

        return make

    def many(space: str, seed: int, steps: int) -> int:
        return min(len(SPACES[space].space) // 2, 3 * TRIALS)

    def depth_first(space: str, seed: int, steps: int) -> Tuner:
        curves = SPACES[space]
        return DepthFirst(curves.space, METRIC, "min", curves.steps, steps=steps, seed=seed)

    return {
        "TPE": of(hippo.OptunaSearch, trials=TRIALS),
        "random": of(Group, trials=TRIALS),
        "grid, depth first": depth_first,
        "TPE + ASHA, state rungs": halving(hippo.ASHA, "states", trials=many, sampler=sampler),
        "TPE + ASHA, trial rungs": halving(hippo.ASHA, "trials", trials=many, sampler=sampler),
        "halving, state rungs": halving(Halving, "states"),
        "halving, trial rungs": halving(Halving, "trials"),
        "TPE, cost-aware": of(hippo.OptunaSearch, trials=TRIALS, cost_aware=True),
        "Lazy": of(hippo.Lazy, steps=budget),
        "Lazy without branches": of(hippo.Lazy, steps=budget, branches=False),
        "Lazy without prices": of(hippo.Lazy, steps=budget, alpha=0.0),
        "Lazy never blind": of(hippo.Lazy, steps=budget, blind=0.0),
    }


@cache
def recorded(space: str, seed: int) -> hippo.Recorded:
    return hippo.Recorded(FOLDER / f"{space}-{seed}.json.gz")


def searched(space: str, seed: int, search: int) -> dict[str, Run]:
    """Run all searches of one seed on the curves of one training seed."""
    runs: dict[str, Run] = {}
    for name, make in searches().items():
        run = runs[name] = Run()
        executor = hippo.Simulated(1, metrics=recorded(space, search), **COSTS)
        tuner = make(space, seed, runs["TPE"].steps)
        with hippo.Study(f"{space}-{seed}", NotTrained, executor=executor, audit=0) as study:
            report = study.tune(Traced(tuner, space, run), progress=False)
        run.steps, run.seconds = report.work.steps_trained, report.work.worker_seconds
        if isinstance(tuner, hippo.Lazy):
            run.recommended = tuner.recommend(report).config
    return runs


def regret(space: str, config: hippo.Config, others: tuple[int, ...]) -> float:
    """Return by how much a config's loss is above the best, on other training seeds."""
    losses = _losses(space, others)
    return losses[config] - min(losses.values())


@cache
def _losses(space: str, seeds: tuple[int, ...]) -> dict[hippo.Config, float]:
    steps = SPACES[space].steps
    return {
        config: float(np.mean([recorded(space, seed)(config, steps)[METRIC] for seed in seeds]))
        for config in SPACES[space].space
    }


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the mean and the ends of its interval."""
    numbers = np.array(values)
    drawn = np.random.default_rng(0).choice(numbers, (4000, len(numbers))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(numbers.mean()), float(low), float(high)


def seeds_of(space: str) -> list[int]:
    """Return the training seeds that were recorded of a space."""
    return [seed for seed in SEEDS if (FOLDER / f"{space}-{seed}.json.gz").exists()]


RECORDED = [space for space in SPACES if len(seeds_of(space)) > 1]


class Outcome(NamedTuple):
    """What came of a search: against the best config, and against TPE with the same seed."""

    regret: float
    of_best: float
    gap: float
    steps: float
    seconds: float
    reached: bool
    steps_share: float
    seconds_share: float


def outcomes(space: str, seed: int) -> dict[str, Outcome]:
    """Run all searches of one seed on one space."""
    there = seeds_of(space)
    search = there[1 + seed % (len(there) - 1)]
    others = tuple(each for each in there if each != search)
    runs = searched(space, seed, search)
    tpe = runs["TPE"]
    aim = tpe.best()
    assert aim is not None
    found: dict[str, Outcome] = {}
    for name, run in runs.items():
        best = run.best(math.inf if name.startswith("halving") else tpe.steps)
        of_best = np.nan if best is None else regret(space, best[1], others)
        lost = of_best if run.recommended is None else regret(space, run.recommended, others)
        gap = np.nan if best is None else regret(space, best[1], (search,))
        steps, seconds = run.until(aim[0])
        reached = best is not None and best[0] <= aim[0]
        shares = steps / tpe.steps, seconds / tpe.seconds
        found[name] = Outcome(lost, of_best, gap, run.steps, run.seconds, reached, *shares)
    return found


def compared(space: str, each: list[dict[str, Outcome]], figures: dict[str, Any]) -> None:
    """Print a table of the searches on one space, and note the figures that there are bars for."""
    table = {name: [found[name] for found in each] for name in each[0]}
    print(f"\n{space}: {len(SPACES[space].space)} configs, {len(each)} seeds")
    head = {"regret": 8, "of best": 9, "gap": 8, "steps": 7, "seconds": 9, "TPE’s best": 12, "its steps": 20}
    print(f"  {'search':<25}" + "".join(f"{word:>{width}}" for word, width in head.items()))
    for name, rows in table.items():
        lost, of_best, gap, steps, seconds, reached, *_ = np.nanmean(np.array(rows, dtype=float), axis=0)
        share, low, high = interval([row.steps_share for row in rows])
        print(
            f"  {name:<25}{lost:>8.4f}{of_best:>9.4f}{gap:>8.4f}{steps:>7,.0f}{seconds:>9,.0f}"
            f"{reached:>12.0%}{share:>7.2f} [{low:.2f}, {high:.2f}]"
        )

    def apart(one: str, other: str) -> tuple[float, float, float]:
        found = interval([a.regret - b.regret for a, b in zip(table[one], table[other], strict=True)])
        print(f"  regret of {one} − {other}: {found[0]:+.4f} [{found[1]:+.4f}, {found[2]:+.4f}]")
        return found

    if space in SCHEDULES:
        lazy = table["Lazy"]
        shares = {
            "steps": [row.steps_share for row in lazy],
            "worker-seconds": [row.seconds_share for row in lazy],
        }
        for unit, share in shares.items():
            figures[f"{space}: {unit} of Lazy for TPE's best, of TPE's"] = float(np.mean(share))
    figures[f"{space}: Lazy worse than random by at least"] = apart("Lazy", "random")[1]
    for kind in ("halving", "TPE + ASHA"):
        found = apart(f"{kind}, state rungs", f"{kind}, trial rungs")
        figures[f"{space}: {kind}, states worse than trials by at least"] = found[1]
        if space == "letters" and kind == "halving":
            figures[f"{space}: {kind}, states worse than trials by at most"] = found[2]
    for part in ("branches", "prices"):
        apart("Lazy", f"Lazy without {part}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    spaces = options.space or RECORDED
    with ProcessPoolExecutor(options.processes) as pool:
        found = {
            space: [pool.submit(outcomes, space, seed) for seed in range(options.seeds)] for space in spaces
        }
        for space, seeds in found.items():
            compared(space, [each.result() for each in seeds], figures)
    print()
    return figures


def bars(spaces: list[str]) -> list[Bar]:
    found = [Bar(f"{space}: Lazy worse than random by at least", "at most", 0.0) for space in spaces]
    for space in spaces:
        if space in SCHEDULES:
            found += [
                Bar(f"{space}: {unit} of Lazy for TPE's best, of TPE's", "at most", 0.5)
                for unit in ("steps", "worker-seconds")
            ]
        found += [
            Bar(f"{space}: {kind}, states worse than trials by at least", "at most", 0.0)
            for kind in ("halving", "TPE + ASHA")
        ]
        if space == "letters":
            found.append(Bar(f"{space}: halving, states worse than trials by at most", "at most", 0.0))
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--space", nargs="+", choices=RECORDED)
    parser.add_argument("--processes", type=int, default=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    arguments(parser)
    chosen = parser.parse_known_args()[0].space or RECORDED
    harness.run(__doc__ or "", measure, bars(chosen), arguments)
