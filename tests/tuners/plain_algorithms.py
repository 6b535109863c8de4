"""The algorithms as plainly as they can be stated, to check the tuners against."""

from __future__ import annotations

import math
from collections.abc import Callable

from tuners.scripted import Scripted

Scores = dict[tuple[int, int], float | None]


def worth(value: float | None, mode: str) -> float:
    """A score of which more is better; the worst where there is none."""
    if value is None or not math.isfinite(value):
        return -math.inf
    return value if mode == "max" else -value


def plain_halving(scores: Scores, steps: list[int], sizes: list[int], mode: str) -> dict[int, int]:
    """How far each trial is asked to go: rung by rung, everybody waiting for everybody."""
    goal = {}
    alive = list(range(sizes[0]))
    for rung, step in enumerate(steps):
        goal.update(dict.fromkeys(alive, step))
        if rung + 1 < len(steps):
            able = [trial for trial in alive if worth(scores[trial, step], mode) > -math.inf]
            alive = sorted(able, key=lambda trial: (-worth(scores[trial, step], mode), trial))[
                : sizes[rung + 1]
            ]
    return goal


def published_job(
    rungs: list[dict[int, float]], promoted: list[set[int]], reduction: int, top: int
) -> tuple[int, int] | None:
    """Algorithm 2 of the ASHA paper: (trial, rung) to run next; None where a new config is due.

    `rungs` holds the scores that are known at each rung, `promoted` who left each rung upwards.
    """
    for k in range(top - 1, -1, -1):
        ranked = sorted(rungs[k], key=lambda trial: (-rungs[k][trial], trial))
        candidates = ranked[: len(rungs[k]) // reduction]
        promotable = [t for t in candidates if t not in promoted[k] and rungs[k][t] > -math.inf]
        if promotable:
            return promotable[0], k + 1
    return None


def last_job(rungs: list[dict[int, float]], promoted: list[set[int]], top: int) -> tuple[int, int] | None:
    """What is left to do when nothing is under way: at least one trial leaves each rung."""
    for k in range(top):
        able = [trial for trial in rungs[k] if rungs[k][trial] > -math.inf]
        if able and not promoted[k]:
            return min(able, key=lambda trial: (-rungs[k][trial], trial)), k + 1
    return None


Curves = dict[int, dict[int, float]]
Top = Callable[[list[dict[int, float]], Curves], int]


def check_promotions(
    done: Scripted, steps: list[int], reduction: int, trials: int, workers: int, top_of: Top | None = None
) -> None:
    """Follow the log: whenever a worker was free, the job that the rule names was started, in that order.

    `top_of` is asked after every result at a rung for the highest rung that is open.
    """
    rungs: list[dict[int, float]] = [{} for _ in steps]
    promoted: list[set[int]] = [set() for _ in steps]
    curves: Curves = {}
    running: dict[int, int] = {}
    started = 0
    top = top_of(rungs, curves) if top_of else len(steps) - 1
    log = list(done.log)
    while log:
        while len(running) < workers:
            job = published_job(rungs, promoted, reduction, top)
            if job is None and started < trials:
                job = (started, 0)
                started += 1
            if job is None and not running:
                job = last_job(rungs, promoted, top)
            if job is None:
                break
            trial, rung = job
            if rung:
                promoted[rung - 1].add(trial)
            running[trial] = rung
            assert log.pop(0) == ("ask", trial, steps[rung])
        if not log:
            break
        kind, trial, step = log.pop(0)
        assert kind in ("hear", "fail")
        score = worth(done.score(done.trials[trial].config, step), "max")
        curves.setdefault(trial, {})[step] = score
        if kind == "fail" or step == steps[running[trial]]:
            rungs[running.pop(trial)][trial] = score
            top = top_of(rungs, curves) if top_of else top
    assert not running
