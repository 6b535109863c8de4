"""Hippo as its documentation says; and no engine at all: bare loops, and one trial to compare with."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

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
        work = report.work
        self.own = {
            "proof_steps": work.proof_steps,
            "proof_seconds": work.proof_seconds,
            "proof_startup_seconds": work.proof_startup_seconds,
        }
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


class Rehearsed(Hippo):
    """Hippo, where the plan was rehearsed before, by a process that has ended."""

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_rehearse, args=(self.task,))
        process.start()
        process.join()
        self.task.log.unlink()


def _rehearse(task: Task) -> None:
    engine = Hippo(task)
    engine._study.eval(hippo.Config({"lr": 0.5}), 2)
    engine.close()


class Plain(Engine):
    """No engine: one trial, trained by the trainer's own methods to a step."""

    given = "a loop over the trainer's own methods"

    def __init__(self, task: Task, trial: str, step: str) -> None:
        super().__init__(task)
        self._trial, self._step = int(trial), int(step)

    def run(self) -> Losses:
        return {self._trial: {self._step: trained_plainly(self.task, self._trial, self._step)}}


class Bare(Engine):
    """No engine: two processes, each with a plain loop over half of the trials, all to the end."""

    given = "two processes, each with a loop over the trainer's own methods and half of the trials"

    def run(self) -> Losses:
        context = multiprocessing.get_context("spawn")
        losses: Losses = {}
        running = []
        for worker in range(WORKERS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_loop, args=(self.task, worker, theirs))
            process.start()
            running.append((process, ours))
        for process, ours in running:
            losses |= ours.recv()
            process.join()
        return losses


def _loop(task: Task, worker: int, connection: Connection) -> None:
    """Train half of the trials."""
    trainer = Mnist(task.settings, SEED)
    trainer.prepare()
    losses = {
        trial: {task.max_steps: trained_plainly(task, trial, task.max_steps, trainer)}
        for trial in range(worker, task.trials, WORKERS)
    }
    connection.send(losses)
