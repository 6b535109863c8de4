"""What the user holds: a trainer with a plan, tuned by one or more tuners."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hippo.errors import InvalidInput, TrialFailed
from hippo.executors.base import Executor, Job
from hippo.plan.plan import unique_steps
from hippo.progress import Progress
from hippo.report import Best, Report, Work, best_result, trial_reports
from hippo.runtime import Runtime, checkpoint_folder
from hippo.sequences.config import Config
from hippo.sequences.base import Sequence
from hippo.sequences.values import Value
from hippo.store.base import Store
from hippo.store.key import PlanKey
from hippo.store.memory import MemoryStore
from hippo.trainers.base import Trainer
from hippo.tuners.base import Result, TrialGroup, Tuner
from hippo.tuning import Tuning
from hippo.view import View, open_view

T = TypeVar("T")
Asks = TrialGroup | Iterable[tuple[Config | Mapping[str, Sequence | Value], int]]


class Study:
    """A study of one trainer.

    Nothing is opened or started before the first `tune`, `train` or `eval`. Workers then stay up until
    `close` (or the end of a ``with`` block, or of the program).

    Parameters
    ----------
    name : str
        What the study is called in the store and on the command line.
    trainer : type[Trainer]
        The trainer's class. Its source, `settings` and `seed` make the plan: studies that agree in them
        share everything that was trained; edited training code begins a new plan.
    home : str or Path
        The folder of the store and of checkpoints.
    executor : Executor
        Where to train; by default local processes, one for every two cores.
    settings : Mapping[str, Any]
        Fixed settings for the trainer (``self.settings``).
    seed : int
        The seed that every trial starts from (``self.seed``).
    share : bool
        False trains every trial alone: the baseline for comparisons.
    store : str
        A database URL, such as ``postgresql://…``, in place of SQLite below `home`.
    version : str
        Identifies the training code in place of its source, where edits are known not to matter.
    """

    def __init__(
        self,
        name: str,
        trainer: type[Trainer],
        *,
        home: str | Path = ".hippo",
        executor: Executor | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        share: bool = True,
        store: str | None = None,
        version: str | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"a study's name is {name!r}; expected a non-empty string")
        if not (isinstance(trainer, type) and issubclass(trainer, Trainer)):
            raise InvalidInput(
                f"trainer is {trainer!r}; expected a class that extends hippo.Trainer or hippo.TorchTrainer"
            )
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise InvalidInput(f"seed is {seed!r}; expected a whole number of at least 0")
        self.name = name
        self.trainer = trainer
        self.home = Path(home)
        self.settings = dict(settings or {})
        self.seed = seed
        self.share = share
        self.store_url = store
        self._version = version
        self._executor = executor
        self._runtime: Runtime | None = None
        self._notes: list[str] = []

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.trainer.__name__}, home={str(self.home)!r})"

    def __enter__(self) -> Study:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def key(self) -> PlanKey:
        """What the study's plan is found by."""
        version = self._version
        key = PlanKey.of(self.trainer, self.settings, self.seed, version)
        if not self.share:
            # Trials that must not share get a plan of their own: nothing in it is of use to others.
            return PlanKey(key.trainer, f"{key.version} alone in {self.name}", key.settings, key.seed)
        return key

    @property
    def executor(self) -> Executor:
        """Where the study trains."""
        if self._executor is None:
            from hippo.executors.local import Local

            self._executor = Local()
        return self._executor

    # Training.

    def tune(self, tuner: Tuner, *, progress: bool | None = None) -> Report:
        """Run a tuner to its end and report.

        Run again after an interruption, it goes on where it was: recorded results are replayed to the
        tuner in the order in which they came. `progress` shows what is going on: by default on terminals
        as a live view, elsewhere as plain lines; False is silent.
        """
        if not isinstance(tuner, Tuner):
            raise InvalidInput(f"tuner is {tuner!r}; expected a hippo tuner, such as SuccessiveHalving(...)")
        with open_view(progress) as view:
            runtime = self._open()
            for note in self._notes:
                view.note(note)
            self._notes.clear()
            tuning = Progress(self.name, tuner.metric, tuner.mode, runtime)
            return self._follow(self._tune(tuner, runtime, tuning), runtime, view, tuning)

    async def _tune(self, tuner: Tuner, runtime: Runtime, progress: Progress) -> Report:
        loop = runtime.loop
        loop.engine.required |= {tuner.metric}
        began = loop.executor.now()
        trained, seconds = loop.engine.trained, loop.engine.worker_seconds
        tuning = Tuning(loop, self.name, self.share)
        progress.begin(tuning)
        await tuning.run(tuner)
        best = best_result(tuning.results, tuner.metric, tuner.mode)
        if best is not None:
            await self._keep(best, runtime)
        plan = runtime.plan
        asks = [(plan.place(trial.config, step, tuning.salt(trial))[0], step) for trial, step in tuning.asked.items()]
        unique = unique_steps(asks)
        trained = loop.engine.trained - trained
        work = Work(
            steps_requested=sum(tuning.asked.values()),
            steps_unique=unique,
            steps_trained=trained,
            steps_found=max(unique - trained, 0),
            worker_seconds=loop.engine.worker_seconds - seconds,
            wall_seconds=loop.executor.now() - began,
            workers=loop.executor.workers,
        )
        found = None if best is None else self._best(best, runtime, tuning)
        return Report(self.name, tuner.metric, tuner.mode, trial_reports(tuning.results, tuning.asked), work, found)

    async def _keep(self, best: Result, runtime: Runtime) -> None:
        """See to it that the best trial has a durable checkpoint, training it again if it has not."""
        keeping = Tuning(runtime.loop, self.name, self.share, keep=True)
        await keeping.once(TrialGroup(((best.trial, best.step),)))

    def _best(self, best: Result, runtime: Runtime, tuning: Tuning) -> Best:
        node, _ = runtime.plan.place(best.trial.config, best.step, tuning.salt(best.trial))
        checkpoint = node.holder(best.step).checkpoints.get(best.step)
        path = None
        if checkpoint is not None and not self.executor.virtual:
            path = (checkpoint_folder(self.home, self.key) / checkpoint.name).resolve()
        assert best.metrics is not None
        return Best(best.trial.number, best.trial.config, best.step, best.metrics, path, self._load)

    async def train(self, group: Asks) -> list[Result]:
        """Train a trial group and return its results, in the group's order. For use with ``await``."""
        runtime = self._open()
        return await asyncio.wrap_future(runtime.spawn(self._train(group, runtime)))

    async def _train(self, group: Asks, runtime: Runtime) -> list[Result]:
        if not isinstance(group, TrialGroup):
            asks = ((who if isinstance(who, Config) else Config(who), step) for who, step in group)
            group = TrialGroup(tuple(asks))
        return await Tuning(runtime.loop, self.name, self.share).once(group)

    def eval(self, config: Config | Mapping[str, Sequence | Value], step: int) -> dict[str, float]:
        """Return the metrics of one trial at one step, training what is missing."""
        runtime = self._open()
        with open_view(False) as view:
            (result,) = self._follow(self._train([(config, step)], runtime), runtime, view, None)
        if result.metrics is None:
            raise TrialFailed(f"the trial failed at step {result.step}:\n{result.error}")
        return dict(result.metrics)

    # Opening and closing.

    def _open(self) -> Runtime:
        if self._runtime is not None and not self._runtime.closed:
            return self._runtime
        executor = self.executor
        key = self.key
        store: Store
        if executor.virtual:
            store = MemoryStore()
        else:
            from hippo.store.catalog import open_store

            catalog = open_store(self.home, self.store_url)
            before = catalog.bind(self.name, key)
            if before is not None:
                self._notes.append(
                    f"{self.trainer.__name__}'s code, settings or seed changed since study {self.name!r} last ran: "
                    "a new plan begins (the old one is kept)"
                )
            store = catalog.plan(key)
        job = Job(self.trainer, self.settings, self.seed, checkpoint_folder(self.home, key))
        runtime = Runtime(store, executor, job, executor.virtual)
        if runtime.found_results:
            self._notes.append(
                f"found in the plan: {runtime.found_results:,} results, {runtime.found_checkpoints:,} checkpoints"
            )
        runtime.start()
        self._runtime = runtime
        return runtime

    def _follow(
        self, coroutine: Coroutine[Any, Any, T], runtime: Runtime, view: View, progress: Progress | None
    ) -> T:
        """Wait for what runs on the engine's thread, showing how it goes."""
        future = runtime.spawn(coroutine)
        try:
            while not concurrent.futures.wait([future], timeout=0.2).done:
                if progress is not None and (snapshot := progress.snapshot()) is not None:
                    view.show(snapshot)
            if progress is not None and (snapshot := progress.snapshot()) is not None:
                view.show(snapshot)
            return future.result()
        except KeyboardInterrupt:
            view.note("stopping at the end of the running steps (Ctrl-C again: at once, from the last checkpoints)")
            runtime.halt()
            self.close()
            view.note(f"stopped; everything is kept in {self.home}: run the same again to go on")
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers and let go of the plan. The study can be used again afterwards."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    def _load(self, config: Config, step: int, path: Path) -> Trainer:
        from hippo.trainers.session import Session

        session = Session(self.trainer, self.settings, self.seed)
        session.start(config, step, path, warm=False)
        return session.trainer
