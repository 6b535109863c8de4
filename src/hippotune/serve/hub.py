"""The plans that a server has open.

A plan is opened when a study needs it, and closed when none has for a while: an idle plan holds nothing.
Methods that open or close plans wait for disks and processes, and are for threads of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from hippotune.errors import HippoError
from hippotune.executors.base import Executor, Job, Parcel
from hippotune.history.retrying import cleared
from hippotune.history.studies import asked_as, listed_as, read_study
from hippotune.identity.data import data_text
from hippotune.identity.key import Identity
from hippotune.serve.blobs import Blobs
from hippotune.serve.definition import Definition, KeyParts, PlanOpened
from hippotune.serve.outbox import Outbox
from hippotune.serve.probing import Probed, Probes
from hippotune.serve.questions import WriteExport
from hippotune.serve.served_plan import ServedPlan, SessionNotes
from hippotune.serve.session import TunerSession
from hippotune.store.catalog import open_store
from hippotune.store.homes import parse_home
from hippotune.study.opening import StudyOptions, open_plan
from hippotune.study.start import find_start

# How long a session waits for its client, and a plan for its next session.
SESSION_SECONDS = 120.0
IDLE_SECONDS = 30.0
_ENDING = "the server is about to end: try again when it is back"
_HOLD = "\0the server's own hold"


class NotHere(HippoError):
    """Something that is asked for is not open, or not known, on this server."""


class NotNow(HippoError):
    """Something that the next server will do."""


@dataclass(frozen=True)
class ServerSetup:
    """Where a server keeps things, and with which workers it trains."""

    home: str | Path
    store: str | None
    make_executor: Callable[[], Executor]


class Hub:
    """See the module. `holds` keeps plans from training anything until `release`."""

    def __init__(self, setup: ServerSetup, blobs: Blobs, probes: Probes, holds: bool = False) -> None:
        self.folder, self._storage = parse_home(setup.home)
        self.store = setup.store
        self._setup = setup
        self.blobs = blobs
        self.probes = probes
        self._holds = holds
        self._plans: dict[str, ServedPlan] = {}
        self._opening = threading.Lock()
        self._is_closing = False
        self.is_draining = False
        self._aio: asyncio.AbstractEventLoop

    def begin(self) -> None:
        """Remember the event loop that streams are on."""
        self._aio = asyncio.get_running_loop()

    # Plans.

    def open(self, definition: Definition, user: str) -> PlanOpened:
        """Open the plan of a study."""
        parcel = self.blobs.parcel(definition.code)
        probed = self._probed(definition, parcel)
        executor = self._setup.make_executor()
        identity = self._identify(definition, probed, user, executor.threads)  # which may read much data
        with self._opening:
            if self._is_closing:
                raise NotNow(_ENDING)
            plan = self._usable(identity.key.digest)
            warnings: list[str] = []
            if plan is None:
                plan, warnings = self._begin(definition, probed, identity, parcel, executor)
            else:
                with open_store(self.folder, self.store) as catalog:
                    catalog.bind(listed_as(definition.study, definition.share), identity.key)
            plan.code.add(definition.code.digest)
            plan.idle_since = time.monotonic()
            workers = plan.runtime.executor.workers
            parts = KeyParts.of(identity.key)
            return PlanOpened(plan.key, parts, probed.name, workers, tuple(plan.notes), tuple(warnings))

    def identify(self, definition: Definition, user: str) -> Identity:
        """Work out what the plan of a study is found by."""
        probed = self._probed(definition, self.blobs.parcel(definition.code))
        return self._identify(definition, probed, user, self._setup.make_executor().threads)

    def _probed(self, definition: Definition, parcel: Parcel) -> Probed:
        is_fixed = definition.code.kind != "entry"
        return self.probes.identify(parcel, definition.version is None, is_fixed)

    def _identify(self, definition: Definition, probed: Probed, user: str, threads: int | None) -> Identity:
        """Identify a plan. Users whose data has no name may have different data: they share nothing."""
        data = data_text(definition.data, self.folder, remember=True)
        start = find_start(definition.start, self.folder)
        identity = Identity.made_of(
            probed.qualified_name,
            probed.code,
            definition.trainer_settings,
            definition.seed,
            definition.version,
            data or (f"user {user}" if user else ""),
            threads,
            "" if start is None else start.digest,
            definition.substeps,
        )
        return identity if definition.share else identity.alone_in(definition.study)

    def _begin(
        self,
        definition: Definition,
        probed: Probed,
        identity: Identity,
        parcel: Parcel,
        executor: Executor,
    ) -> tuple[ServedPlan, list[str]]:
        options = StudyOptions(
            listed_as(definition.study, definition.share),
            replace(self._job(definition), parcel=parcel, fits=probed.fits),
            definition.engine_options(probed.name),
            executor,
            self.folder,
            self._storage,
            self.store,
        )
        opened = open_plan(options, identity, probed.versions, definition.version is not None)
        runtime = opened.runtime
        feed = Outbox(self._aio, runtime.store.last_number)
        plan = ServedPlan(identity, runtime, parcel, definition, feed)
        plan.notes.extend(opened.notes)
        runtime.notes = SessionNotes(plan.noted)
        runtime.start()
        runtime.ask(lambda: runtime.loop.log.follow(plan.publish))
        if self._holds:
            runtime.ask(lambda: runtime.loop.expect([_HOLD]))
        self._plans[plan.key] = plan
        return plan, opened.warnings

    def plan(self, key: str) -> ServedPlan:
        """Return a plan that is open; `NotHere` where it is not."""
        plan = self._plans.get(key)
        if plan is None or plan.runtime.closed:
            raise NotHere(f"the plan {key} is not open here: open it by POST /plans first")
        return plan

    def _usable(self, key: str) -> ServedPlan | None:
        """Return a plan that is open; one that cannot go on is closed, for another to be opened."""
        plan = self._plans.get(key)
        if plan is not None and (plan.runtime.closed or plan.runtime.loop.error is not None):
            self._close(plan)
            return None
        return plan

    def export(self, plan: ServedPlan, question: WriteExport) -> None:
        """Have a process with the trainer's code write a model."""
        self.probes.ask(replace(plan.parcel, job=self._job(plan.definition)), question)

    def _job(self, definition: Definition) -> Job:
        """Return what a process needs to know that opens a study's trainer, but for the trainer."""
        start = find_start(definition.start, self.folder)
        return Job(None, definition.trainer_settings, definition.seed, start=start, study=definition.study)

    @property
    def plans(self) -> list[ServedPlan]:
        """The plans that are open."""
        return list(self._plans.values())

    @property
    def code_in_use(self) -> set[str | None]:
        """The files of open plans, by their digests."""
        return {digest for plan in self.plans for digest in list(plan.code)}

    def retry(self, study: str, plan: str | None, number: int | None) -> int:
        """Have trials of a study tried again, all or those with a number; return how many."""
        with open_store(self.folder, self.store) as catalog, self._opening:
            if self._is_closing:
                raise NotNow(_ENDING)
            mine = [info for info in catalog.studies() if asked_as(info)[0] == study]
            info = next((each for each in mine if plan in (None, each.key.digest)), None)
            if info is None:
                where = "" if plan is None else f" on plan {plan}"
                raise NotHere(f"there is no study {study!r}{where} in the store")
            facts, trials = cleared(read_study(catalog, info), number, time.time())
            served = self._usable(info.key.digest)
            if served is None:
                with closing(catalog.plan(info.key)) as store:
                    store.write(facts)
            else:
                served.runtime.ask(lambda: served.clear([fact.position for fact in facts]))
                served.runtime.run(served.runtime.loop.log.durable())
            return trials

    def set_aim(self, plan: ServedPlan, study: str, metric: str, mode: str) -> None:
        """Have the store remember what a study is tuned for."""
        with open_store(self.folder, self.store) as catalog:
            name = listed_as(study, plan.definition.share)
            catalog.aim(name, plan.identity.key, metric, mode)

    async def release(self) -> None:
        """Let held plans train."""
        self._holds = False
        for plan in self.plans:
            loop = plan.runtime.loop
            await plan.ask(lambda loop=loop: loop.has_begun(_HOLD))  # type: ignore[misc]

    # Sessions.

    def sessions_of(self, user: str, besides: str) -> int:
        """Return how many sessions a user has, besides one."""
        sessions = [each for plan in self.plans for each in list(plan.sessions.values())]
        return sum(each.user == user and each.id != besides for each in sessions)

    def session(self, key: str, id: str) -> tuple[ServedPlan, TunerSession]:
        """Return a session that has begun; `NotHere` where it has not."""
        plan = self.plan(key)
        if id not in plan.sessions:
            raise NotHere(f"there is no session {id}: begin one, and say again what is open")
        return plan, plan.sessions[id]

    async def stop_study(self, study: str, user: str, by: str) -> None:
        """End the sessions of a study that was stopped, and have the logs of its plans say so."""
        for plan in self.plans:
            await plan.stop_study(study, user, by)

    # What is not used any more.

    async def sweep(self) -> None:
        """End sessions whose clients are gone, and close plans that are idle."""
        for plan in self.plans:
            for session in list(plan.sessions.values()):
                if not session.streams and time.monotonic() - session.left_at > SESSION_SECONDS:
                    await plan.end_session(session)
            if _is_over(plan):
                await asyncio.to_thread(self._sweep, plan)

    def _sweep(self, plan: ServedPlan) -> None:
        with self._opening:
            if _is_over(plan):  # still: no session has begun meanwhile
                self._close(plan)

    def _close(self, plan: ServedPlan) -> None:
        """Stop a plan at the end of its running steps, keep everything, and let its workers go."""
        if self._plans.get(plan.key) is plan:
            del self._plans[plan.key]
        plan.runtime.halt()
        plan.end_streams()

    def drain(self) -> None:
        """Have all streams end, so that clients look for the next server."""
        self.is_draining = True
        for plan in self.plans:
            plan.end_streams()

    def close(self) -> None:
        """Close all plans, each at the end of its running steps."""
        with self._opening:
            self._is_closing = True
            threads = [threading.Thread(target=self._close, args=[plan]) for plan in self.plans]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def _is_over(plan: ServedPlan) -> bool:
    """Whether a plan is idle, or cannot go on."""
    is_idle = not plan.sessions and time.monotonic() - plan.idle_since > IDLE_SECONDS
    return is_idle or plan.runtime.loop.error is not None
