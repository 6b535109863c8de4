"""What the user holds: a trainer with a plan, tuned by one or more tuners."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from hippotune import checks
from hippotune.errors import HippoError, StoreError
from hippotune.executors.base import Executor, Job
from hippotune.history.history import listed_as
from hippotune.history.logged import Logged, LoggedNumbers
from hippotune.identity.data import data_text
from hippotune.identity.key import Identity, PlanKey
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import unique_steps
from hippotune.protocol.events import MetricsRequired
from hippotune.protocol.failures import Retries
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.values import Value
from hippotune.shell.interrupts import ending_in_order
from hippotune.shell.loop import Loop
from hippotune.shell.progress import Progress
from hippotune.shell.runtime import Closed, Runtime, acquire, release
from hippotune.sizes import parse_bytes
from hippotune.store.base import Store
from hippotune.store.memory import MemoryStore
from hippotune.study.average import Average, average
from hippotune.study.completion import Completion
from hippotune.study.limits import Deadline, Limits
from hippotune.study.models import Models, failed_trial
from hippotune.study.opening import open_plan
from hippotune.study.report import Report, Trace, Work, best_result, trial_reports
from hippotune.study.start import find_start
from hippotune.study.trunk import Trunk
from hippotune.study.tuning import Ranking, Tuning
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Result, TrialGroup, Tuner
from hippotune.view import View, open_view
from hippotune.view.short import plural

if TYPE_CHECKING:
    import optuna

T = TypeVar("T")
_MOST_NAMED = 8
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
        The trainer's class. Its source with all that it reads, `settings`, `data` and `seed` make the plan:
        studies that agree in them share everything that was trained; any change begins a new plan.
    home : str or Path
        The folder of the store and of checkpoints.
    executor : Executor
        Where to train; by default two local processes.
    settings : Mapping[str, Any]
        Fixed settings for the trainer (``self.settings``).
    seed : int
        The seed that every trial starts from (``self.seed``).
    share : bool
        False trains every trial alone: the baseline for comparisons.
    store : str
        A database URL, such as ``postgresql://…``, in place of SQLite below `home`.
    version : str
        Identifies the training code instead of its source and what that reads, where changes are known not
        to matter; other versions of Python, torch and NumPy then go on with the plan too.
    data : str or Path
        What the trainer learns from. A path (a `Path`, or text that names a file or folder that exists)
        counts by its content; a URL or version, by its text.
    checkpoint_budget : str or int
        How much all checkpoints of the plan may take, as ``"20GB"`` or in bytes; by default as much as
        there is. What costs least to train again goes first.
    keep_best : int
        The checkpoints of this many best results stay, whatever the budget.
    width : WidthPolicy
        How many workers each stage gets, such as ``hippo.Fluid(max_width=4)``; by default one each.
    defaults : Mapping[str, Sequence or value]
        What hyper-parameters are that a config does not name, or names from a branch on only.
    start : str or Path
        A file of weights that every trial starts from, as a path or a URL: a `state_dict` for torch or
        safetensors, or a Hippo export. It counts by its content; see `TorchTrainer.load_start`.
    substeps : int
        How often schedules are looked at within a step, where a step is an epoch: ``self.hp("lr", part)`` in
        `train` is the value at step + part / substeps, and trials share a step only if all of these agree.
    exact : bool
        Whether the study ends where a trial that is resumed is found to differ from one that is trained
        straight through. With False it goes on, and every report says so.
    audit : float
        Which share of the work may go into repeating steps at branches, to see that they come out the same;
        0 repeats none. The first step of a plan is repeated in any case.
    retries : int or Retries
        How often a stage is tried again whose worker died, hung or lost a device or a connection, after
        pauses of one second, two, four and so on (``hippo.Retries(times, pause)`` sets both). Then it is
        suspended: its trials are neither failed nor lost, and ``hippo retry`` has them taken up again.
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
        data: str | Path | None = None,
        checkpoint_budget: str | int | None = None,
        keep_best: int = 3,
        width: WidthPolicy | None = None,
        defaults: Mapping[str, Sequence | Value] | None = None,
        start: str | Path | None = None,
        substeps: int = 1,
        exact: bool = True,
        audit: float = 0.01,
        retries: int | Retries = 3,
    ) -> None:
        checks.text("name", name, "digits")
        checks.subclass("trainer", trainer, Trainer, "a class that extends hippo.Trainer")
        checks.whole("seed", seed, least=0)
        self.name = name
        self.trainer = trainer
        self.home = Path(home)
        self.settings = dict(settings or {})
        self.seed = seed
        self.share = share
        self.store_url = store
        self.checkpoint_budget = None if checkpoint_budget is None else parse_bytes(checkpoint_budget)
        self.keep_best = keep_best
        if width is not None:
            checks.instance("width", width, WidthPolicy, "a policy, such as hippo.Fluid(max_width=4)")
        self.width = width
        self.defaults = Config(defaults or {})
        self.substeps = checks.whole("substeps", substeps)
        self.start = start
        self.exact = bool(exact)
        self.audit = checks.number("audit", audit, least=0, most=1, what="a share of the work")
        self.retries = retries if isinstance(retries, Retries) else Retries(retries)
        self.data = data
        self._version = version
        self._executor = executor
        self._runtime: Runtime | None = None
        self._opened: Identity | None = None
        self._notes: list[str] = []
        self._warnings: list[str] = []
        self._aim: tuple[str, str] | None = None
        self._completion = Completion(self.defaults, substeps)
        self._trunks: dict[Config, None] = {}

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
        return self._identify().key

    def _identify(self, remember: bool = False) -> Identity:
        """Identify the plan, as everything is now. With `remember`, digests of data are kept in the home."""
        data = data_text(self.data, self.home, remember)
        threads = None if self._executor is None else self._executor.threads
        start = "" if self.start is None else find_start(self.start, self.home).digest
        identity = Identity.of(
            self.trainer, self.settings, self.seed, self._version, data, threads, start, self.substeps
        )
        return identity if self.share else identity.alone_in(self.name)

    @property
    def executor(self) -> Executor:
        """Where the study trains."""
        if self._executor is None:
            from hippotune.executors.local.executor import Local

            self._executor = Local()
        return self._executor

    # Training.

    def tune(
        self,
        tuner: Tuner,
        *,
        deadline: Deadline | None = None,
        budget: float | None = None,
        progress: bool | None = None,
    ) -> Report:
        """Run a tuner to its end and report.

        Run again after an interruption, it goes on where it was: recorded results are replayed to the
        tuner in the order in which they came. `progress` shows what is going on: by default on terminals
        as a live view, elsewhere as plain lines; False is silent.

        With a `deadline` (seconds from now, a timedelta or a moment) or a `budget` in worker-hours, the
        tuner is ended when it is reached: nothing is started that cannot be heard of before, and running
        stages stop at the end of their step. The report says what was cut.
        """
        checks.instance("tuner", tuner, Tuner, "a hippo tuner, such as SuccessiveHalving(...)")
        limits = Limits.of(deadline, budget)
        asked = time.monotonic()
        with self._ending_in_order(), open_view(progress) as view:
            runtime = self._open()
            if not self.executor.virtual:
                limits = limits.after(time.monotonic() - asked)
            self._note_aim(tuner)
            for note in self._notes:
                view.note(note)
            self._notes.clear()
            self._warn(view)
            tuning = Progress(self.name, tuner.metric, tuner.mode, runtime)
            report = self._follow(self._tune(tuner, runtime, tuning, limits), runtime, view, tuning)
            self._note_failures(report, view)
            return self._with_export(report, view)

    def _note_failures(self, report: Report, view: View) -> None:
        """Say why, where no trial has come to anything, and what is suspended."""
        errors = [trial.error for trial in report.failed if trial.error is not None]
        if errors and len(errors) == len(report.trials):
            last = errors[0].strip().splitlines()[-1]
            self._warnings.append(
                f"all {len(errors)} trials failed, the first with: {last} "
                f"(the whole: hippo show {self.name} --trial {report.trials[0].number})"
            )
        if report.suspended:
            numbers = ", ".join(str(trial.number) for trial in report.suspended[:_MOST_NAMED])
            more = ", …" if len(report.suspended) > _MOST_NAMED else ""
            self._warnings.append(
                f"{plural(len(report.suspended), 'trial')} suspended ({numbers}{more}), neither failed nor "
                f"lost: see hippo show {self.name}; hippo retry {self.name}, and the same run again, go on"
            )
        self._warn(view)

    def _with_export(self, report: Report, view: View) -> Report:
        """Export the best result, so that it outlives this code and this version."""
        best = report._best
        if best is None or best.path is None:
            return report
        from hippotune.study.exports import export_best

        try:
            exported = export_best(self.home, best.number, best.origin, partial(best._load, bare=True))
        except Exception as error:  # the study itself has ended well
            self._warnings.append(f"the best result was not exported: {type(error).__name__}: {error}")
            self._warn(view)
            return report
        return replace(report, _best=replace(best, exported=exported))

    def _warn(self, view: View) -> None:
        """Tell what the user should know even where progress is not shown."""
        for text in self._warnings:
            if view.is_silent:
                warnings.warn(text, RuntimeWarning, stacklevel=3)
            else:
                view.note(text)
        self._warnings.clear()

    def _note_aim(self, tuner: Tuner) -> None:
        """Have the store remember what the study is tuned for, so that `hippo show` knows its best."""
        aim = (tuner.metric, tuner.mode)
        if self._aim != aim and not self.executor.virtual and self._opened is not None:
            from hippotune.store.catalog import open_store

            with open_store(self.home, self.store_url) as catalog:
                catalog.aim(listed_as(self.name, self.share), self._opened.key, *aim)
            self._aim = aim

    async def _tune(self, tuner: Tuner, runtime: Runtime, progress: Progress, limits: Limits) -> Report:
        loop = runtime.loop
        loop.handle(MetricsRequired(frozenset({tuner.metric})))
        began = loop.executor.now()
        engine = loop.engine
        trained, seconds, proved = engine.trained, engine.worker_seconds, engine.proof_work
        ranking = Ranking(tuner.metric, tuner.mode, self.keep_best)
        tuning = self._tuning(loop, ranking=ranking, limits=limits)
        progress.begin(tuning)
        lent = None if self.width is not None else tuner.width
        with loop.spans() as spans:
            with nullcontext() if lent is None else runtime.widened(lent):
                await tuning.run(tuner)
            best = best_result(tuning.results, tuner.metric, tuner.mode)
            found = None if best is None else await Models(self).best(best, runtime)
            await loop.run_down()  # what still runs, to the end of its step, is part of the work
        unique = unique_steps(tuning.asks())
        trained = engine.trained - trained
        work = Work(
            steps_requested=sum(tuning.asked.values()),
            steps_unique=unique,
            steps_trained=trained,
            steps_found=max(unique - trained, 0),
            worker_seconds=engine.worker_seconds - seconds,
            wall_seconds=loop.executor.now() - began,
            workers=loop.executor.workers,
            proof_steps=engine.proof_work.steps - proved.steps,
            proof_seconds=engine.proof_work.seconds - proved.seconds,
            proof_startup_seconds=engine.proof_work.startup_seconds - proved.startup_seconds,
        )
        trials = trial_reports(tuning.results, tuning.asked)
        recorded = partial(self._recorded, runtime.store)
        trace = Trace(tuple(spans), tuple(tuning.asks()), tuple(runtime.plan.nodes), recorded)
        aim = (tuner.metric, tuner.mode)
        logged = partial(self._logged, runtime.store)
        return Report(
            self.name,
            *aim,
            trials,
            work,
            found,
            trace,
            logged,
            tuning.ended_by,
            tuning.cut,
            tuple(runtime.plan.proofs),
        )

    def _logged(self, store: Store, node: Node, step: int) -> Logged:
        """Return what training logged on the way to a state, from a store that may be closed by now."""
        if isinstance(store, MemoryStore):
            return LoggedNumbers(store).along(node, step)
        from hippotune.store.catalog import open_store
        from hippotune.store.sql import SqlStore

        assert isinstance(store, SqlStore)
        with open_store(self.home, self.store_url, create=False) as catalog:
            return LoggedNumbers(catalog.view(store.key)).along(node, step)

    def _recorded(self, store: Store) -> list[SpanRecorded]:
        """Return the worker time of the study's plan; the store may have been closed."""
        if isinstance(store, MemoryStore):
            return list(store.spans())
        from hippotune.store.catalog import open_store
        from hippotune.store.sql import SqlStore

        assert isinstance(store, SqlStore)
        with open_store(self.home, self.store_url, create=False) as catalog:
            return list(catalog.view(store.key).spans())

    async def train(self, group: Asks) -> list[Result]:
        """Train a trial group and return its results, in the group's order. For use with ``await``."""
        runtime = self._open()
        self._warn(open_view(False))
        return await asyncio.wrap_future(runtime.spawn(self._train(group, runtime)))

    async def _train(self, group: Asks, runtime: Runtime) -> list[Result]:
        if not isinstance(group, TrialGroup):
            asks = ((who if isinstance(who, Config) else Config(who), step) for who, step in group)
            group = TrialGroup(tuple(asks))
        return await self._tuning(runtime.loop).once(group)

    def _tuning(self, loop: Loop, **options: Any) -> Tuning:
        """Return the trials of the study, for a tuner or a group."""
        return Tuning(
            loop, self.name, self.share, completion=self._completion, trunks=self._trunks, **options
        )

    def trunk(self, config: Config | Mapping[str, Sequence | Value]) -> Trunk:
        """Return a config that others branch off: ``trunk.branch(at=14_400, lr=Decay(1e-3, 1_600))``.

        From now on, checkpoints are kept on its way where branches are likely.
        """
        made = config if isinstance(config, Config) else Config(config)
        self._trunks[made] = None
        return Trunk(self, made)

    def average(self, configs: Iterable[Config | Mapping[str, Sequence | Value]], step: int) -> Average:
        """Return the mean of the weights that trials have at a step, evaluated; nothing is trained from it.

        What is missing is trained first. `Average.metrics` is what `evaluate` says of the mean, and
        `Average.export` writes it.
        """
        return average(self, [each if isinstance(each, Config) else Config(each) for each in configs], step)

    def eval(self, config: Config | Mapping[str, Sequence | Value], step: int) -> dict[str, float]:
        """Return the metrics of one trial at one step, training what is missing."""
        with self._ending_in_order(), open_view(False) as view:
            runtime = self._open()
            self._warn(view)
            (result,) = self._follow(self._train([(config, step)], runtime), runtime, view, None)
        if result.metrics is None:
            raise failed_trial(result)
        return dict(result.metrics)

    def load(self, config: Config | Mapping[str, Sequence | Value], step: int) -> Trainer:
        """Return a trainer that holds the state of one trial after `step` steps, training what is missing."""
        return Models(self).load(config if isinstance(config, Config) else Config(config), step)

    def export(self, config: Config | Mapping[str, Sequence | Value], step: int, path: str | Path) -> Path:
        """Write the model of one trial after `step` steps as `Best.export` does, training what is missing."""
        from hippotune.study.exports import Origin, export

        config = config if isinstance(config, Config) else Config(config)
        trainer, metrics = Models(self).load_with_metrics(config, step)
        return export(trainer, Origin(listed_as(self.name, self.share), config, step, metrics), path)

    @overload
    def alone(self, config: Config | Mapping[str, Sequence | Value], steps: int) -> dict[str, float]: ...

    @overload
    def alone(
        self, config: Config | Mapping[str, Sequence | Value], steps: Iterable[int]
    ) -> dict[int, dict[str, float]]: ...

    def alone(
        self, config: Config | Mapping[str, Sequence | Value], steps: int | Iterable[int]
    ) -> dict[str, float] | dict[int, dict[str, float]]:
        """Train one trial by a plain loop in a fresh process and return its metrics after `steps` steps.

        Nothing that was trained before is used, and nothing is kept: this is what every result of the study
        must be equal to, bit for bit. For several steps it returns metrics by step.
        """
        from hippotune.executors.fresh import FreshInterpreters
        from hippotune.study.alone import asked_steps, train_alone

        made = self._completion(config if isinstance(config, Config) else Config(config))
        asked = made, asked_steps(steps)
        start = None if self.start is None else find_start(self.start, self.home)
        job = Job(self.trainer, self.settings, self.seed, start=start)
        with FreshInterpreters(job, self.executor.environment(self._kept_threads())) as interpreters:
            metrics = interpreters.run(train_alone, asked)
        return metrics[steps] if isinstance(steps, int) else metrics

    def _kept_threads(self) -> int | None:
        """Return the number of threads that the study's plan keeps; None where there is no plan yet."""
        from hippotune.store.catalog import open_store

        with suppress(StoreError), open_store(self.home, self.store_url, create=False) as catalog:
            origin = catalog.origin(self.key)
            return None if origin is None else origin.threads
        return None

    def to_optuna(self, metric: str | None = None, mode: str | None = None) -> optuna.Study:
        """Return what the study has come to as an Optuna study in memory, for Optuna's plots and dashboard.

        Results are ranked by `metric` and `mode` ("max" or "min"); by default as the study was last tuned.
        Trials that others of the study went further than are pruned ones there.
        """
        from hippotune.history.optuna_study import to_optuna

        kept = self._runtime.store if self._runtime is not None and self.executor.virtual else None
        return to_optuna(self, kept, metric, mode)

    # Opening and closing.

    @property
    def _place(self) -> str:
        """Where the study's facts are kept: the database's URL, or the home."""
        place = self.store_url or str(self.home.resolve())
        return f"virtual time of {self.executor.identity} in {place}" if self.executor.virtual else place

    def open(self) -> None:
        """Open the plan and start the workers now, instead of at the first use."""
        self._open()

    def _join_workers_of(self, other: Study) -> None:
        """Train on another study's workers."""
        if other is not self:
            self._executor = other.executor

    def _expect(self, studies: Iterable[str]) -> None:
        """Train nothing until each of these studies, all on this one's plan, has asked for something."""
        runtime = self._open()
        runtime.ask(lambda: runtime.loop.expect(studies))

    def _has_begun(self, study: str) -> None:
        """Do not wait for a study any more: it has asked, or will never ask."""
        if (runtime := self._runtime) is not None:
            with suppress(Closed):
                runtime.ask(lambda: runtime.loop.has_begun(study))

    def halt(self) -> None:
        """Stop at the end of the running steps, keep everything, and end the workers."""
        if self._runtime is not None:
            self._runtime.halt()

    def _open(self) -> Runtime:
        """Open the plan that belongs to the trainer as it is now, which may be another one than last time."""
        identity = self._identify(remember=not self.executor.virtual)
        runtime = self._runtime
        if runtime is not None and not runtime.closed:
            if self._opened is not None and self._opened.key == identity.key:
                return runtime
            if runtime.busy:
                raise HippoError(
                    f"what study {self.name!r} trains was changed while it is being tuned: "
                    "wait for its end, or make another study"
                )
            self.close()
            if runtime.executor is self.executor:
                runtime.close()  # others on the old plan open it again when they need it
        self._opened, self._aim = identity, None
        self._runtime = acquire(self._place, identity.key, self.executor, partial(self._begin, identity))
        return self._runtime

    def _begin(self, identity: Identity) -> Runtime:
        opened = open_plan(self, identity, waived=self._version is not None)
        self._notes += opened.notes
        self._warnings += opened.warnings
        return opened.runtime

    def _follow(
        self, coroutine: Coroutine[Any, Any, T], runtime: Runtime, view: View, progress: Progress | None
    ) -> T:
        """Wait for what runs on the engine's thread, showing how it goes."""
        try:
            future = runtime.spawn(coroutine)
            if view.is_silent or progress is None:
                return future.result()
            with runtime.notes.read_by(view.note) as show_notes:
                while not concurrent.futures.wait([future], timeout=0.2).done:
                    show_notes()
                    if (snapshot := progress.snapshot()) is not None:
                        view.show(snapshot)
            if (snapshot := progress.snapshot(last=True)) is not None:
                view.show(snapshot)
            return future.result()
        except KeyboardInterrupt:
            view.close()  # the terminal is as it was, whatever comes
            view.note(
                "stopping at the end of the running steps (Ctrl-C again: at once, from the last checkpoints)"
            )
            runtime.halt()
            raise
        except BaseException:
            if runtime.loop.error is not None:
                runtime.halt()
            raise

    def _ending_in_order(self) -> AbstractContextManager[None]:
        return ending_in_order(f"stopped; everything is kept in {self.home}: run the same again to go on")

    def close(self) -> None:
        """End the workers and unlock the plan. The study can be used again afterwards."""
        if self._runtime is not None:
            release(self._runtime)
            self._runtime = None
