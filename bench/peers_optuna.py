"""Optuna, as its documentation says for a study on several processes of one machine."""

from __future__ import annotations

import multiprocessing

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from peers_process import Engine
from peers_study import REDUCTION, SEED, WORKERS, Alone, Losses, Task


class Optuna(Engine):
    """Optuna with a queue of all trials, served by two processes that share a journal."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        pruner = "no pruner"
        if task.algorithm == "halving":
            pruner = "SuccessiveHalvingPruner with the same first rung and reduction, which resumes no trial"
        self.given = (
            f"{pruner}; two processes, started within the time, on one JournalStorage with a "
            "JournalFileBackend on local disk; all trials enqueued; one trainer for a process; a report for "
            "each rung; no checkpoints"
        )

    def run(self) -> Losses:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            study_name=self.task.algorithm, storage=_storage(self.task), direction="minimize"
        )
        for trial in range(self.task.trials):
            study.enqueue_trial({"trial": trial})
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=_work, args=(self.task,)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            raise RuntimeError("a worker process failed")
        finished = [trial for trial in study.get_trials(deepcopy=False) if trial.intermediate_values]
        return {trial.params["trial"]: dict(trial.intermediate_values) for trial in finished}


def _storage(task: Task) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(task.home / "journal.log")))


def _work(task: Task) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
    if task.algorithm == "halving":
        pruner = optuna.pruners.SuccessiveHalvingPruner(task.min_steps, REDUCTION)
    study = optuna.load_study(
        study_name=task.algorithm,
        storage=_storage(task),
        sampler=optuna.samplers.RandomSampler(SEED),
        pruner=pruner,
    )
    alone = Alone(task)

    def objective(trial: optuna.Trial) -> float:
        if trial.number >= task.trials:  # the queue is empty
            study.stop()
            raise optuna.TrialPruned
        alone.begin(trial.suggest_int("trial", 0, task.trials - 1))
        for step in task.rungs:
            loss = alone.train_to(step)
            trial.report(loss, step)
            if step < task.max_steps and trial.should_prune():
                raise optuna.TrialPruned
        return loss

    study.optimize(objective)
