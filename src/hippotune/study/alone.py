"""One trial by a plain loop, as in a book: what every result of a study is compared with.

There is no engine here, no checkpoint and no session; nothing is shared, nothing goes on from anything. The
one rule of seeding: Python's, NumPy's and torch's generators are seeded with the study's seed before the
trainer is made and before `prepare`, with the trial's before `build`, and put back after `evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hippotune import checks
from hippotune.errors import InvalidInput, StoreError
from hippotune.executors.base import Job
from hippotune.executors.fresh import FreshInterpreters
from hippotune.study.opening import job_of
from hippotune.trainers import seeding
from hippotune.trainers.hyperparameters import InForce, handed_over
from hippotune.trainers.metrics import checked_metrics

if TYPE_CHECKING:
    from hippotune.sequences.config import Config
    from hippotune.study.study import Study
    from hippotune.trainers.base import Trainer

Metrics = dict[str, float]


def alone(study: Study, config: Config, steps: int | Iterable[int]) -> dict[int, Metrics]:
    """Train one trial of a study in a fresh process and return its metrics after each of the steps."""
    asked = study._completion(config), asked_steps(steps)
    with fresh_interpreters(study) as interpreters:
        return interpreters.run(train_alone, asked)


def fresh_interpreters(study: Study) -> FreshInterpreters:
    """Return interpreters for a study's trainer, each as a worker of its plan is."""
    return FreshInterpreters(job_of(study), study.executor.environment(_kept_threads(study)))


def _kept_threads(study: Study) -> int | None:
    """Return the number of threads that the study's plan keeps; None where there is no plan yet."""
    from hippotune.store.catalog import open_store

    with suppress(StoreError), open_store(study.home, study._store_url, create=False) as catalog:
        origin = catalog.origin(study.key)
        return None if origin is None else origin.threads
    return None


def asked_steps(steps: int | Iterable[int]) -> tuple[int, ...]:
    """Return the steps that metrics are asked for at, in order."""
    asked = (steps,) if isinstance(steps, int) else checks.several("steps", steps)
    for at, step in enumerate(asked):
        checks.whole(f"steps[{at}]", step, least=0)
    if not asked:
        raise InvalidInput("steps is empty; expected a step, or several")
    return tuple(sorted(set(asked)))


def train_alone(job: Job, asked: tuple[Config, tuple[int, ...]]) -> dict[int, Metrics]:
    """Train one trial and return its metrics after each of the steps."""
    config, steps = asked
    trainer = seeding.with_torch_seeded(partial(_begun, job, config))
    trainer.setup(handed_over(config.values(0)))
    metrics = {}
    for step in range(steps[-1] + 1):
        if step in steps:
            metrics[step] = _evaluated(trainer)
        if step == steps[-1]:
            break
        if step > 0 and (changes := config.changes(step)):
            trainer.setup(handed_over(changes))
        with InForce(trainer, config, step), trainer.around("train"):
            trainer.train()
    return metrics


def _begun(job: Job, config: Config) -> Trainer:
    settings: Mapping[str, Any] = job.settings
    seeding.seed_all(job.seed)
    trainer = job.opened(settings, job.seed)
    seeding.seed_all(job.seed)
    trainer.prepare()
    trainer.seed = seeding.of_trial(handed_over(config.values(0)), job.seed)
    seeding.seed_all(trainer.seed)
    trainer.build()
    if job.start is not None:
        trainer.load_start(job.start.load())
    return trainer


def _evaluated(trainer: Trainer) -> Metrics:
    with seeding.put_back(), trainer.around("evaluate"):
        return checked_metrics(trainer.evaluate())
