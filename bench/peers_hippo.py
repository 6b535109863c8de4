"""Hippo as its documentation says; and no engine at all, to compare the metrics of one trial with."""

from __future__ import annotations

import hippotune as hippo
from peers_process import Engine
from peers_study import METRIC, MODE, REDUCTION, SEED, WORKERS, Losses, Mnist, Task, trained_plainly


class Hippo(Engine):
    """Hippo with its defaults: SQLite, two worker processes, durable checkpoints wherever trials part."""

    given = (
        "GridSearch or SuccessiveHalving; Local(workers=2), started within the time; SQLite and checkpoints "
        "on local disk, durable before they count; the best trial's model at the end"
    )

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._study = hippo.Study(
            task.algorithm,
            Mnist,
            home=task.home,
            executor=hippo.Local(workers=WORKERS),
            settings=task.settings,
            seed=SEED,
        )

    def run(self) -> Losses:
        report = self._study.tune(self._tuner(), progress=False)
        if report.failed:
            raise RuntimeError(report.failed[0].error)
        return {
            trial.number: {step: metrics[METRIC] for step, metrics in trial.metrics.items()}
            for trial in report.trials
        }

    def close(self) -> None:
        self._study.close()

    def _tuner(self) -> hippo.tuners.Tuner:
        task = self.task
        if task.algorithm == "grid":
            return hippo.GridSearch(task.space, METRIC, MODE, task.max_steps)
        return hippo.SuccessiveHalving(
            task.space, METRIC, MODE, task.min_steps, task.max_steps, REDUCTION, rungs="trials"
        )


class Plain(Engine):
    """No engine: one trial, trained by the trainer's own methods to a step."""

    given = "a loop over the trainer's own methods"

    def __init__(self, task: Task, trial: str, step: str) -> None:
        super().__init__(task)
        self._trial, self._step = int(trial), int(step)

    def run(self) -> Losses:
        return {self._trial: {self._step: trained_plainly(self.task, self._trial, self._step)}}
