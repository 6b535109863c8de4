"""How soon searches find good configs, on curves of real networks that are replayed in virtual time.

Every search runs inside Hippo with sharing on, one worker, on the recorded curves (bench/record.py) of one
training seed. It chooses the best that it has measured there. The choice is judged by the other training
seeds: its regret is its mean loss there over that of the best config of the space. Its gap is the same on the
training seed that was searched. Beside it stands what Lazy's model recommends of the results of a search.
Lazy's defaults were chosen on training seed 0, so searches run on the others.

Every search is judged by what it found within the steps that TPE trained, and within TPE's worker-seconds;
halving, which has a size of its own, is judged at its end, and ASHA within the steps that it trained with
either kind of rungs. Steps are those that were trained; worker-seconds count loads (2 steps' time), saves
(half a step) and evaluations (a fifth) too. Searches of one seed are compared in pairs; intervals are the
middle 95 % of 4,000 bootstrap means.

Bars:
* Lazy finds TPE's final best with at most half of TPE's steps, and of its worker-seconds, on the spaces of
  schedules (digits, mnist: Table 2; letters: WSD): the mean of the shares, where a search that never gets
  there counts as one that took all of TPE's. And what Lazy has found after half of TPE's steps, or
  worker-seconds, is on average no worse than what TPE has in the end.
* Lazy is nowhere worse than random search beyond the interval, after as many steps and worker-seconds.
* State rungs are nowhere worse than trial rungs beyond the interval, and better where schedules part late
  (letters): in successive halving of the whole grid, as in the Hippo paper (15 to 120 steps, by four), and
  under ASHA with TPE, after as many steps. The grid's values come in an order that is drawn by the seed:
  trial rungs prefer those that are written first.

    python bench/search.py [--seeds 20] [--space digits] [--processes 2] [--check] [--json FILE]
"""

from __future__ import annotations

import argparse
import math
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
LATE = "letters"  # where schedules part late
RECOMMENDING = ("TPE", "random", "Lazy")  # whose results Lazy's model is asked about
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
    """What a search found, when: steps trained, worker-seconds, loss, config."""

    found: list[tuple[int, float, float, hippo.Config]] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    recommended: hippo.Config | None = None

    def best(self, steps: float = math.inf, seconds: float = math.inf) -> tuple[float, hippo.Config] | None:
        """Return the best loss that was found within these steps and worker-seconds, and its config."""
        found = ((loss, config) for at, now, loss, config in self.found if at <= steps and now <= seconds)
        return min(found, key=lambda each: each[0], default=None)

    def until(self, loss: float) -> tuple[float, float]:
        """Return the steps and the worker-seconds until a loss was found; infinite where it never was."""
        reached = ((float(at), now) for at, now, each, _ in self.found if each <= loss)
        return next(reached, (math.inf, math.inf))


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
    """Random search in one trial group, as far as the steps go."""

    def __init__(self, *args: Any, steps: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self.steps = steps

    async def run(self, trials: Trials) -> None:
        trials.submit(TrialGroup.of(self.configs(), self.max_steps))
        while trials.open and trials._loop.engine.trained < self.steps:
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
        "random": of(Group, trials=TRIALS, steps=budget),
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
    lazy = hippo.Lazy(SPACES[space].space, METRIC, "min", SPACES[space].steps, SPACES[space].steps)
    for name, make in searches().items():
        run = runs[name] = Run()
        executor = hippo.Simulated(1, metrics=recorded(space, search), **COSTS)
        tuner = make(space, seed, runs["TPE"].steps)
        with hippo.Study(f"{space}-{seed}", NotTrained, executor=executor, audit=0) as study:
            report = study.tune(Traced(tuner, space, run), progress=False)
        run.steps, run.seconds = report.work.steps_trained, report.work.worker_seconds
        if name in RECOMMENDING:
            run.recommended = lazy.recommend(report).config
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


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and the ends of its interval; where nothing was found, a value is not a number."""
    numbers = np.array([value for value in values if not math.isnan(value)])
    drawn = np.random.default_rng(0).choice(numbers, (4000, len(numbers))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(numbers.mean()), float(low), float(high)


class Outcome(NamedTuple):
    """What came of a search: against the best config, and against TPE with the same seed.

    `recommended` is the regret of what `Lazy.recommend` takes of its results.
    `share` and `time_share` are the steps and worker-seconds until it had TPE's final best, of all of TPE's;
    `half` and `half_time` are its loss after half of them, over TPE's final best.
    """

    regret: float
    recommended: float
    time_regret: float
    gap: float
    steps: float
    seconds: float
    reached: bool
    share: float
    time_share: float
    half: float
    half_time: float


def outcomes(space: str, seed: int) -> dict[str, Outcome]:
    """Run all searches of one seed on one space."""
    search = SEEDS[1 + seed % (len(SEEDS) - 1)]
    runs = searched(space, seed, search)
    tpe = runs["TPE"]
    aim = tpe.best()
    assert aim is not None
    shorter = min(run.steps for name, run in runs.items() if name.startswith("TPE + ASHA"))

    def outcome(name: str, run: Run) -> Outcome:
        steps, seconds = float(tpe.steps), tpe.seconds
        if name.startswith("halving"):
            steps = seconds = math.inf
        elif name.startswith("TPE + ASHA"):
            steps = min(steps, shorter)

        def lost(best: tuple[float, hippo.Config] | None, seeds: Iterable[int]) -> float:
            return math.nan if best is None else regret(space, best[1], tuple(seeds))

        def behind(best: tuple[float, hippo.Config] | None) -> float:
            return math.nan if best is None else best[0] - aim[0]

        others = [each for each in SEEDS if each != search]
        best, in_time = run.best(steps=steps), run.best(seconds=seconds)
        reached, reached_in_time = run.until(aim[0])
        return Outcome(
            regret=lost(best, others),
            recommended=math.nan
            if run.recommended is None
            else regret(space, run.recommended, tuple(others)),
            time_regret=lost(in_time, others),
            gap=lost(best, [search]),
            steps=run.steps,
            seconds=run.seconds,
            reached=reached <= tpe.steps,
            share=min(reached / tpe.steps, 1.0),
            time_share=min(reached_in_time / tpe.seconds, 1.0),
            half=behind(run.best(steps=tpe.steps / 2)),
            half_time=behind(run.best(seconds=tpe.seconds / 2)),
        )

    return {name: outcome(name, run) for name, run in runs.items()}


def compared(space: str, each: list[dict[str, Outcome]], figures: dict[str, Any]) -> None:
    """Print a table of the searches on one space, and note the figures."""
    table = {name: [found[name] for found in each] for name in each[0]}
    print(f"\n{space}: {len(SPACES[space].space)} configs, {len(each)} seeds")
    head = {
        "regret": 8,
        "recomm.": 9,
        "gap": 8,
        "steps": 7,
        "seconds": 9,
        "TPE’s best": 12,
        "its steps": 20,
        "its time": 20,
    }
    print(f"  {'search':<25}" + "".join(f"{word:>{width}}" for word, width in head.items()))
    rows = figures[space] = {name: _row(found) for name, found in table.items()}
    for name, row in rows.items():
        print(
            f"  {name:<25}{row['regret']:>8.4f}{row.get('recommended', math.nan):>9.4f}{row['gap']:>8.4f}"
            f"{row['steps']:>7,.0f}{row['seconds']:>9,.0f}"
            f"{row['reached']:>12.0%}{_with_ends(row, 'share'):>20}{_with_ends(row, 'time_share'):>19}"
        )

    def apart(one: str, other: str, field: str = "regret") -> tuple[float, float, float]:
        pairs = zip(table[one], table[other], strict=True)
        name = f"{field} over {other}"
        mean, low, high = interval([getattr(a, field) - getattr(b, field) for a, b in pairs])
        rows[one] |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        print(f"  {one}: {name}: {mean:+.4f} [{low:+.4f}, {high:+.4f}]")
        return mean, low, high

    if space in SCHEDULES:
        for field, unit in (("share", "steps"), ("time_share", "worker-seconds")):
            figures[f"{space}: {unit} of Lazy for TPE's best, of TPE's"] = rows["Lazy"][field]
        for field, unit in (("half", "steps"), ("half_time", "worker-seconds")):
            mean, low, high = (rows["Lazy"][f"{field}{end}"] for end in ("", "_low", "_high"))
            name = f"loss of Lazy after half of TPE's {unit}, over TPE's best"
            print(f"  {name}: {mean:+.4f} [{low:+.4f}, {high:+.4f}]")
            figures[f"{space}: {name}"] = mean
    figures[f"{space}: Lazy worse than random by at least"] = max(
        apart("Lazy", "random")[1], apart("Lazy", "random", "time_regret")[1]
    )
    for kind in ("halving", "TPE + ASHA"):
        _, low, high = apart(f"{kind}, state rungs", f"{kind}, trial rungs")
        figures[f"{space}: {kind}, states worse than trials by at least"] = low
        if space == LATE:
            figures[f"{space}: {kind}, states worse than trials by at most"] = high
    for name in RECOMMENDING:
        changes = [row.recommended - row.regret for row in table[name]]
        mean, low, high = interval(changes)
        rows[name] |= {"change": mean, "change_low": low, "change_high": high}
        print(
            f"  {name}: regret of what is recommended over its best's: {mean:+.4f} [{low:+.4f}, {high:+.4f}]"
        )
    for part in ("Lazy without branches", "Lazy without prices", "Lazy never blind", "TPE"):
        apart("Lazy", part)
        apart("Lazy", part, "gap")


def _row(found: list[Outcome]) -> dict[str, float]:
    """Return the means over the seeds, with the ends of their intervals."""
    row: dict[str, float] = {}
    for name, values in zip(Outcome._fields, zip(*found, strict=True), strict=True):
        if not all(map(math.isnan, values)):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = interval(values)
    return row


def _with_ends(row: Mapping[str, float], name: str) -> str:
    return f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    spaces = options.space or list(SPACES)
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
            for unit in ("steps", "worker-seconds"):
                found += [
                    Bar(f"{space}: {unit} of Lazy for TPE's best, of TPE's", "at most", 0.5),
                    Bar(f"{space}: loss of Lazy after half of TPE's {unit}, over TPE's best", "at most", 0.0),
                ]
        for kind in ("halving", "TPE + ASHA"):
            found.append(Bar(f"{space}: {kind}, states worse than trials by at least", "at most", 0.0))
            if space == LATE:
                found.append(Bar(f"{space}: {kind}, states worse than trials by at most", "at most", 0.0))
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--space", nargs="+", choices=SPACES)
    parser.add_argument("--processes", type=int, default=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    arguments(parser)
    chosen = parser.parse_known_args()[0].space or list(SPACES)
    harness.run(__doc__ or "", measure, bars(chosen), arguments)
