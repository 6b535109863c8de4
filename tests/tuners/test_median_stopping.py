import math
import random
import statistics

import optuna
import pytest

from hippotune.tuners import MedianStopping
from tuners.scripted import by_number, numbered, tune

optuna.logging.set_verbosity(optuna.logging.WARNING)

STEPS = 12


def curves(seed: int) -> list[list[float]]:
    """Curves without a trend, with a NaN here and there, but not in the end."""
    chance = random.Random(seed)
    table = []
    for _ in range(30):
        level = chance.random()
        curve = [math.nan if chance.random() < 0.05 else level + chance.random() / 3 for _ in range(STEPS)]
        table.append([*curve[:-1], level])
    return table


def by_optuna(table: list[list[float]], mode: str, **settings: int) -> dict[int, int]:
    """How far each trial gets with Optuna's pruner, one after the other."""
    direction = {"max": "maximize", "min": "minimize"}[mode]
    study = optuna.create_study(direction=direction, pruner=optuna.pruners.MedianPruner(**settings))
    reached = {}
    for number, curve in enumerate(table):
        trial = study.ask()
        for step, value in enumerate(curve, start=1):
            trial.report(value, step)
            reached[number] = step
            if step < STEPS and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, curve[-1])
    return reached


@pytest.mark.filterwarnings("ignore:All-NaN")  # within Optuna
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("startup", "warmup"), [(5, 0), (1, 4), (0, 0)])
def test_it_stops_the_trials_that_optunas_median_pruner_stops_and_when(mode, seed, startup, warmup):
    table = curves(seed)
    tuner = MedianStopping(
        numbered(30), "score", mode, STEPS, every=1, warmup_steps=warmup, startup_trials=startup
    )
    done = tune(tuner, by_number(lambda n, step: table[n][step - 1]))
    assert done.reached() == by_optuna(table, mode, n_startup_trials=startup, n_warmup_steps=warmup)
    assert len(set(done.reached().values())) > 1


@pytest.mark.parametrize("seed", range(3))
def test_by_viziers_rule_the_best_so_far_is_compared_with_running_averages(seed):
    table = curves(seed)
    done = tune(
        MedianStopping(numbered(30), "score", "max", STEPS, startup_trials=3, rule="vizier"),
        by_number(lambda n, step: table[n][step - 1]),
    )
    completed: list[list[float]] = []
    for number, curve in enumerate(table):
        for step in range(1, STEPS):
            averages = [
                sum(known) / len(known)
                for other in completed
                if (known := [value for value in other[:step] if not math.isnan(value)])
            ]
            best = max((value for value in curve[:step] if not math.isnan(value)), default=-math.inf)
            is_behind = averages and best < statistics.median(averages)
            if len(completed) >= 3 and (best == -math.inf or is_behind):
                break
        else:
            step = STEPS
            completed.append(curve)
        assert done.reached()[number] == step
    assert len(completed) < 30


def test_trials_are_compared_only_at_the_steps_that_are_reported():
    table = curves(7)
    done = tune(
        MedianStopping(numbered(30), "score", "max", STEPS, every=5),
        by_number(lambda n, step: table[n][step - 1]),
    )
    assert set(done.reached().values()) <= {5, 10, STEPS}


def test_a_trial_that_is_not_a_number_from_the_start_is_stopped():
    def table(n: int, step: int) -> float:
        return float("nan") if n == 4 else float(n)

    done = tune(MedianStopping(numbered(6), "score", "max", 6, startup_trials=2), by_number(table))
    assert done.reached()[4] == 1


def test_as_many_trials_are_under_way_as_there_are_workers():
    done = tune(
        MedianStopping(numbered(9), "score", "max", 4), by_number(lambda n, step: float(n)), workers=3
    )
    under_way = []
    for kind, _, step in done.log:
        if kind == "ask" or (kind == "hear" and step == 4):
            under_way.append((under_way[-1] if under_way else 0) + (1 if kind == "ask" else -1))
    assert max(under_way) == 3
