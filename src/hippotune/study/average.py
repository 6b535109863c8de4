"""The mean of several trials' weights: a leaf of the tree, evaluated and exported, never trained from.

It is worked out in a fresh process like a worker's, one trial after the other: what `evaluate` says there of
the mean of one trial is what it said of the trial, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.errors import InvalidInput
from hippotune.executors.base import Job
from hippotune.sequences.config import Config
from hippotune.study.alone import fresh_interpreters
from hippotune.study.exports import Origin, write
from hippotune.trainers.export import PlainState, find_parts, plain_state
from hippotune.trainers.loading import Opener
from hippotune.trainers.session import Session

if TYPE_CHECKING:
    from hippotune.study.study import Study
    from hippotune.trainers.base import Trainer


@dataclass(frozen=True)
class Average:
    """The mean of the weights of several trials at a step.

    Attributes
    ----------
    configs : tuple[Config, ...]
        The trials that it is the mean of.
    step : int
        How far each of them was trained.
    metrics : Mapping[str, float]
        What `evaluate` says of the mean.
    """

    configs: tuple[Config, ...]
    step: int
    metrics: Mapping[str, float]
    _state: PlainState
    _study: str

    def export(self, path: str | Path) -> Path:
        """Write the mean for other programs, as `Study.export` writes a model."""
        return write(self._state, Origin(self._study, self.configs[0], self.step, self.metrics), path)


def average(study: Study, configs: Sequence[Config], step: int) -> Average:
    """Train what is missing of the trials, and take the mean of all weights that are floats."""
    if not configs:
        raise InvalidInput("configs is empty; expected the trials to average")
    if study.share:  # what is missing of them is trained at once, and found below
        study._connection.run(partial(study._train, [(config, step) for config in configs]))
    with ExitStack() as stack:
        models = study._connection.models
        files = [stack.enter_context(models.opener(config, step)) for config in configs]
        trials = [(study._completion(c), file) for c, file in zip(configs, files, strict=True)]
        interpreters = stack.enter_context(fresh_interpreters(study))
        metrics, state = interpreters.run(_mean, (trials, step))
    return Average(tuple(configs), step, metrics, state, study._listed_name)


def _mean(
    job: Job, asked: tuple[Sequence[tuple[Config, Opener]], int]
) -> tuple[dict[str, float], PlainState]:
    """Return the metrics and the weights of the mean, which is put into the first of the trials."""
    trials, step = asked
    session = Session(job.opened, job.settings, job.seed, start=job.start)
    totals: dict[tuple[str, str], Any] = {}
    for config, opened in reversed(trials):
        with opened() as file:
            session.start(config, step, file, warm=False)
        for key, tensor in _weights(session.trainer).items():
            totals[key] = tensor.double() + totals.get(key, 0)
    if not totals:
        raise InvalidInput(
            f"{job.opened.__name__} has no torch module on self: there are no weights to average"
        )
    for key, tensor in _weights(session.trainer).items():
        tensor.copy_(totals[key] / len(trials))
    return session.evaluate(), plain_state(session.trainer)


def _weights(trainer: Trainer) -> dict[tuple[str, str], Any]:
    """Return the tensors of floats of all modules on a trainer, which share their memory with it."""
    modules = find_parts(trainer).modules
    return {
        (path, name): tensor
        for path, module in modules.items()
        for name, tensor in module.state_dict().items()
        if hasattr(tensor, "is_floating_point") and tensor.is_floating_point()
    }
