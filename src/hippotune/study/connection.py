"""A study's connection to its plan: found by its key, opened at the first use, shared with others, closed."""

from __future__ import annotations

import concurrent.futures
import warnings
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hippotune.errors import HippoError
from hippotune.executors.shipping import is_importable
from hippotune.history.logged import Logged
from hippotune.identity.data import data_text
from hippotune.identity.key import Identity, PlanKey
from hippotune.identity.versions import versions
from hippotune.plan.facts import ProofRecorded, SpanRecorded
from hippotune.plan.node import Node
from hippotune.shell.interrupts import ending_in_order
from hippotune.shell.runtime import Runtime, acquire, release
from hippotune.store.base import Store
from hippotune.store.served import refuse_served
from hippotune.study.limits import Limits
from hippotune.study.models import Models
from hippotune.study.opening import StudyOptions, open_plan
from hippotune.study.progress import Progress
from hippotune.study.reading import read_logged, read_spans, reading_plan
from hippotune.study.recorded import recorded
from hippotune.study.report import Trace
from hippotune.study.start import find_start
from hippotune.study.tuning import Tuning
from hippotune.study.unsent import refuse_unsent
from hippotune.tuners.base import Tuner
from hippotune.view import View, open_view

if TYPE_CHECKING:
    from hippotune.study.study import Study

T = TypeVar("T")


class Connection:
    """See the module. `notes` are shown with progress; `warnings` are told even where none is shown."""

    def __init__(self, study: Study) -> None:
        self.runtime: Runtime | None = None
        self.identity: Identity | None = None
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._aim: tuple[str, str] | None = None
        self.study = study

    @property
    def key(self) -> PlanKey:
        """What the study's plan is found by, as everything is now."""
        return self.identify().key

    def identify(self, remember: bool = False) -> Identity:
        """Identify the plan, as everything is now. With `remember`, digests of data are kept in the home."""
        study = self.study
        data = data_text(study.data, study.home, remember)
        threads = None if study._executor is None else study._executor.threads
        start = find_start(study.start, study.home)
        digest = "" if start is None else start.digest
        identity = Identity.of(
            study.trainer, study.settings, study.seed, study._version, data, threads, digest, study.substeps
        )
        return identity if study.share else identity.alone_in(study.name)

    @property
    def place(self) -> str:
        """Where the study's facts are kept: the database's URL, or the home."""
        executor, place = self.study.executor, self.study._store_url or str(self.study.home.resolve())
        return f"virtual time of {executor.identity} in {place}" if executor.virtual else place

    def open(self) -> Runtime:
        """Open the plan that belongs to the trainer as it is now, which may be another one than last time."""
        executor = self.study.executor
        if not executor.virtual:
            refuse_served(self.study.home)
        runtime = self.runtime
        if runtime is None:
            executor.warm_up(self.study.trainer)
        identity = self.identify(remember=not executor.virtual)
        if runtime is not None and not runtime.closed:
            if self.identity is not None and self.identity.key == identity.key:
                return runtime
            if runtime.busy:
                raise HippoError(
                    f"the trainer, settings or data of study {self.study.name!r} changed while it is being "
                    "tuned: wait for its end, or make another study"
                )
            self.close()
            if runtime.executor is executor:
                runtime.close()  # others on the old plan open it again when they need it
        self.identity, self._aim = identity, None
        self.runtime = acquire(
            self.place, identity.key, executor, self.study.name, partial(self._begin, identity)
        )
        return self.runtime

    def _begin(self, identity: Identity) -> Runtime:
        options, waived = StudyOptions.of(self.study), self.study._version is not None
        if not (options.executor.virtual or waived):
            self.warnings += refuse_unsent(self.study.trainer.__module__, identity, is_importable)
        opened = open_plan(options, identity, versions(identity.imports), waived)
        self.notes += opened.notes
        self.warnings += opened.warnings
        return opened.runtime

    def set_aim(self, metric: str, mode: str) -> None:
        """Have the store remember what the study is tuned for, so that `hippo show` knows its best."""
        study = self.study
        if self._aim != (metric, mode) and self.identity is not None and not study.executor.virtual:
            from hippotune.store.catalog import open_store

            with open_store(study.home, study._store_url) as catalog:
                catalog.aim(study._listed_name, self.identity.key, metric, mode)
            self._aim = metric, mode

    @property
    def is_virtual(self) -> bool:
        """Whether the study runs in virtual time."""
        return self.study.executor.virtual

    @property
    def models(self) -> Models:
        """The trained models of the study."""
        return Models(self.study, self)

    def recorded(
        self, runtime: Runtime, tuner: Tuner, limits: Limits, tuning: Tuning
    ) -> AbstractContextManager[object]:
        """Record that a tuning begins and, however the block is left, how it ended."""
        return recorded(runtime, self.study.name, tuner, limits, tuning)

    def trace(self, runtime: Runtime, tuning: Tuning, spans: list[SpanRecorded]) -> Callable[[], Trace]:
        """Return what pictures of a tuning are drawn from."""
        spent = partial(read_spans, self.study, runtime.store)
        trace = Trace(tuple(spans), tuple(tuning.asks()), tuple(runtime.plan.nodes), spent)
        return lambda: trace

    def reading(self, runtime: Runtime) -> AbstractContextManager[Store]:
        """Open the log of the plan for reading, on any thread."""
        return reading_plan(self.study, runtime.store)

    def proofs(self, runtime: Runtime) -> tuple[ProofRecorded, ...]:
        """Return what was proved of the trainer."""
        return tuple(runtime.plan.proofs)

    def logged(self, runtime: Runtime) -> Callable[[Node, int], Logged]:
        """Return what reads what training logged on the way to a state."""
        return partial(read_logged, self.study, runtime.store)

    def close(self) -> None:
        """Let go of the plan; the last study to do so ends the workers and unlocks it."""
        if self.runtime is not None:
            release(self.runtime, self.study.name)
            self.runtime = None

    def run(self, work: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Open the plan, run a coroutine on the engine's thread and wait for it, silently."""
        with self.ending_in_order(), open_view(False) as view:
            runtime = self.open()
            self.warn(view)
            return self.follow(work(runtime), runtime, view)

    def follow(
        self,
        coroutine: Coroutine[Any, Any, T],
        runtime: Runtime,
        view: View,
        progress: Progress | None = None,
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
            view.close()  # which restores the terminal
            view.note(
                "stopping at the end of the running steps (Ctrl-C again: at once, from the last checkpoints)"
            )
            runtime.halt()
            raise
        except BaseException:
            if runtime.loop.error is not None:
                runtime.halt()
            raise

    def ending_in_order(self) -> AbstractContextManager[None]:
        """Let Ctrl-C end what runs in the block in order, and in one line."""
        line = f"stopped; everything is kept in {self.study.home}: run the same again to go on"
        return ending_in_order(line)

    def warn(self, view: View, depth: int = 4) -> None:
        """Tell what the user should know even where progress is not shown.

        Warnings point at the user's own line where this is called by a function that a method of `Study`
        calls: at a `depth` of 4.
        """
        for text in self.warnings:
            if view.is_silent:
                warnings.warn(text, RuntimeWarning, stacklevel=depth)
            else:
                view.note(text)
        self.warnings.clear()
