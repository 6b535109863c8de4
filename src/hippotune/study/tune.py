"""One `Study.tune`: the plan is opened, the tuner runs to its end, and the report is put together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hippotune.plan.plan import unique_steps
from hippotune.shell.readings import Counters
from hippotune.shell.runtime import Runtime
from hippotune.short import plural
from hippotune.sinks.base import Sink
from hippotune.study.callbacks import Callback, Callbacks
from hippotune.study.feeding import Feeds
from hippotune.study.limits import Limits
from hippotune.study.plan_loop import PlanReadings
from hippotune.study.progress import Progress
from hippotune.study.ranking import Ranking
from hippotune.study.report import Report, best_result, trial_reports
from hippotune.study.tuning import Tuning
from hippotune.study.work import Work
from hippotune.tuners.base import Tuner
from hippotune.view import View, open_view

if TYPE_CHECKING:
    from hippotune.study.study import Study

_MOST_NAMED = 8


def tune(
    study: Study,
    tuner: Tuner,
    limits: Limits,
    show: bool | View | None,
    sinks: Sequence[Sink] = (),
    callbacks: Sequence[Callback] = (),
) -> Report:
    """Run a tuner on a study; `show` is the user's ``progress=``, or a view."""
    connection = study._connection
    asked = time.monotonic()
    with connection.ending_in_order(), show if isinstance(show, View) else open_view(show) as view:
        runtime = connection.open()
        if not connection.is_virtual:
            limits = limits.after(time.monotonic() - asked)
        connection.set_aim(tuner.metric, tuner.mode)
        for note in connection.notes:
            view.note(note)
        connection.notes.clear()
        connection.warn(view)
        progress = Progress(study.name, tuner.metric, tuner.mode, runtime)
        told = Callbacks(callbacks, tuner.metric, tuner.mode)
        plan = connection.key.digest if sinks else ""
        log, warn = partial(connection.reading, runtime), connection.warnings.append
        feeds = Feeds(sinks, log, study.name, plan, study.share, warn)
        with feeds.fed():
            tuning = _run(study, tuner, runtime, progress, limits, told)
            report = connection.follow(tuning, runtime, view, progress)
            connection.warnings += _failures(report)
            report = _with_export(study, report)
        feeds.finish(report._best, is_away=study._url is not None)
        connection.warn(view)
        return report


async def _run(
    study: Study, tuner: Tuner, runtime: Runtime, progress: Progress, limits: Limits, callbacks: Callbacks
) -> Report:
    """Tune, on the engine's thread."""
    loop = runtime.loop
    loop.require(frozenset({tuner.metric}), study.name)
    began, before = loop.readings.now(), loop.readings.counters()
    ranking = Ranking(tuner.metric, tuner.mode, study.keep_best)
    tuning = study._tuning(loop, ranking=ranking, limits=limits, heard=callbacks.heard)
    progress.begin(tuning)
    lent = None if study.width is not None else tuner.width
    connection = study._connection
    with connection.recorded(runtime, tuner, limits, tuning), loop.spans() as spans:
        with nullcontext() if lent is None else runtime.widened(lent):
            await tuning.run(tuner)
        best = best_result(tuning.results, tuner.metric, tuner.mode)
        found = None if best is None else await connection.models.best(best, runtime)
        await loop.wait_idle_or_tuned()  # what still runs, to the end of its step, is part of the work
    return Report(
        study.name,
        tuner.metric,
        tuner.mode,
        trial_reports(tuning.results, tuning.asked),
        _work(tuning, loop.readings, began, before),
        found,
        connection.trace(runtime, tuning, spans),
        connection.logged(runtime),
        tuning.ended_by,
        tuning.cut,
        connection.proofs(runtime),
        frozenset(tuning.deferred),
    )


def _work(tuning: Tuning, readings: PlanReadings, began: float, before: Counters) -> Work:
    """Return the work of a tuning that ends now, by the time and the counters when it began."""
    counted = readings.counters().minus(before)
    unique = unique_steps(tuning.asks())
    return Work(
        steps_requested=sum(tuning.asked.values()),
        steps_unique=unique,
        steps_trained=counted.trained,
        steps_found=max(unique - counted.trained, 0),
        worker_seconds=counted.worker_seconds,
        wall_seconds=readings.now() - began,
        workers=readings.workers,
        proof_steps=counted.proof_work.steps,
        proof_seconds=counted.proof_work.seconds,
        proof_startup_seconds=counted.proof_work.startup_seconds,
    )


def _failures(report: Report) -> list[str]:
    """Say why, where no trial has come to anything, and what is suspended."""
    said: list[str] = []
    errors = [trial.error for trial in report.failed if trial.error is not None]
    if errors and len(errors) == len(report.trials):
        last = errors[0].strip().splitlines()[-1]
        said.append(
            f"all {len(errors)} trials failed, the first with: {last} "
            f"(in full: hippo show {report.study} --trial {report.trials[0].number})"
        )
    if report.suspended:
        numbers = ", ".join(str(trial.number) for trial in report.suspended[:_MOST_NAMED])
        more = ", …" if len(report.suspended) > _MOST_NAMED else ""
        said.append(
            f"{plural(len(report.suspended), 'trial')} suspended ({numbers}{more}), not failed: see "
            f"hippo show {report.study}. To go on: hippo retry {report.study}, then run the same again"
        )
    return said


def _with_export(study: Study, report: Report) -> Report:
    """Export the best result, so that it outlives this code and this version."""
    best = report._best
    if best is None or best.path is None or study._url is not None:
        return report
    from hippotune.study.exports import export_best

    try:
        exported = export_best(study.home, best.number, best.origin, partial(best._load, bare=True))
    except Exception as error:  # the study itself has ended well
        study._connection.warnings.append(
            f"the best result was not exported: {type(error).__name__}: {error}"
        )
        return report
    return replace(report, _best=replace(best, exported=exported))
