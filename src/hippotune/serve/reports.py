"""Reports of studies that were tuned on a server: written down at the end, and made again by any client."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hippotune.errors import HippoError, InvalidInput
from hippotune.plan.facts import ProofRecorded
from hippotune.sequences.config import Config
from hippotune.serve.client.api import Api
from hippotune.serve.client.facts import read_logged, read_trace
from hippotune.serve.messages import numbers, read_numbers
from hippotune.serve.records import Ended, StudyRecord, TrialLine
from hippotune.study.best import Best
from hippotune.study.report import Report, TrialReport
from hippotune.study.work import Work
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Trial

if TYPE_CHECKING:
    from hippotune.serve.client.models import RemoteModels


def ended_of(report: Report, key: str, first_fact: int) -> Ended:
    """Write a report down."""
    best = report._best
    return Ended(
        trials=tuple(
            TrialLine(
                each.number,
                each.config.to_json(),
                each.asked,
                {step: numbers(metrics) for step, metrics in each.metrics.items()},
                each.error,
                each.suspended,
            )
            for each in report.trials
        ),
        work=asdict(report.work),
        best=None if best is None else (best.number, best.step),
        path=None if best is None or best.path is None else str(best.path),
        ended_by=report.ended_by,
        cut=tuple(sorted(report._cut)),
        deferred=tuple(sorted(report._deferred)),
        proofs=tuple(msgspec.to_builtins(proof) for proof in report._proofs),
        key=key,
        first_fact=first_fact,
    )


def report_of(api: Api, record: StudyRecord, models: RemoteModels | None) -> Report:
    """Make the report of a study that has ended; raises what it ended with."""
    end = record.end
    if end is None:
        raise InvalidInput(f"study {record.name!r} has not ended yet")
    if end.error is not None:
        raise end.error.made()
    tuned = record.submission.tuned
    trials = [
        TrialReport(
            each.number,
            Config.from_json(each.config),
            each.asked,
            {step: read_numbers(metrics) for step, metrics in each.metrics.items()},
            each.error,
            each.suspended,
        )
        for each in end.trials
    ]
    share = record.submission.definition.share
    asked = [(each.config, each.asked, "" if share else str(each.number)) for each in trials]
    return Report(
        record.name,
        tuned.metric,
        tuned.mode,
        trials,
        msgspec.convert(end.work, Work, strict=False),  # whole numbers are written as floats
        _best(end, trials, models),
        read_trace(api, end.key, asked, end.first_fact),
        partial(read_logged, api, end.key),
        end.ended_by,  # type: ignore[arg-type]
        frozenset(end.cut),
        tuple(msgspec.convert(proof, ProofRecorded) for proof in end.proofs),
        frozenset(end.deferred),
    )


def _best(end: Ended, trials: list[TrialReport], models: RemoteModels | None) -> Best | None:
    if end.best is None:
        return None
    number, step = end.best
    (found,) = [each for each in trials if each.number == number]
    path = None if end.path is None else Path(end.path)
    if models is None:
        return Best(number, found.config, step, found.metrics[step], path, "", _cannot_load)
    return models.described(Trial(number, found.config), step, found.metrics[step], path)


def _cannot_load(*_: object, **__: object) -> Trainer:
    raise HippoError("the trainer's class is not known here: load the model by Study(url=...).load")
