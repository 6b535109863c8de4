"""The program that opens a trainer to say what it is: ``python -m hippotune.serve.probe RESULT``.

It is started as workers are, and gets a parcel and a question on its standard input. What it finds, it
writes as JSON: the server that asks opens nothing of its own.
"""

from __future__ import annotations

import json
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

from hippotune.errors import HippoError
from hippotune.executors.base import Parcel
from hippotune.executors.shipping import refuse_other_settings, unpack
from hippotune.executors.worker.tracebacks import describe
from hippotune.identity.fingerprint import fingerprint
from hippotune.identity.key import NO_CODE
from hippotune.identity.versions import versions
from hippotune.serve.questions import Question, WhatIsIt
from hippotune.trainers.base import Trainer


def answer(parcel: Parcel, question: Question) -> dict[str, Any]:
    """Open a parcel and answer."""
    job = unpack(parcel)
    trainer = job.opened
    if isinstance(question, WhatIsIt):
        if question.fingerprinted:
            refuse_other_settings(parcel)
        code = fingerprint(trainer) if question.fingerprinted else NO_CODE
        return {
            "name": trainer.__name__,
            "qualified": trainer.__qualname__,
            "digest": code.digest,
            "parts": dict(code.parts),
            "imports": sorted(code.imports),
            "versions": versions(code.imports),
            "fits": _fits(trainer),
        }
    from hippotune.store.homes import open_checkpoints
    from hippotune.study.exports import Origin, export
    from hippotune.trainers.loading import load_trainer

    config, step = question.config, question.step
    files = open_checkpoints(question.checkpoints, question.storage)
    opened = partial(files.read, question.checkpoint)
    model = load_trainer(trainer, job.settings, job.seed, job.start, config, step, opened, bare=True)
    export(model, Origin(question.study, config, step, question.metrics), question.target)
    return {}


def _fits(trainer: type[Trainer]) -> str:
    """Return which widths its steps can have: one of our own rules, or none that is known."""
    if not trainer.widens:
        return "narrow"
    rule = getattr(trainer.fits, "__func__", None)
    if rule is Trainer.fits.__func__:  # type: ignore[attr-defined]
        return "any"
    ours = getattr(rule, "__module__", "") == "hippotune.trainers.torch.trainer"
    return "batch" if ours else "narrow"


def main(result: str) -> None:
    """Answer what the standard input asks."""
    parcel, question = pickle.loads(sys.stdin.buffer.read())
    try:
        found = {"answer": answer(parcel, question)}
    except HippoError as error:
        found = {"error": {"kind": type(error).__name__, "text": describe(error)}}
    except Exception as error:
        found = {"error": {"kind": "TrainerError", "text": describe(error)}}
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
