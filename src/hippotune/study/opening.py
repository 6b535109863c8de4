"""Opening the plan of a study: its store, its runtime, and what is to be said of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.engine.options import EngineOptions
from hippotune.errors import InvalidInput, NotExact
from hippotune.executors.base import Executor, Job
from hippotune.identity.key import Identity, Origin
from hippotune.identity.opening import noted_threads, noted_versions, said_of_move
from hippotune.identity.process import changed_settings
from hippotune.plan.facts import refutation, width_refutation
from hippotune.protocol.proof import ProofPolicy
from hippotune.shell.runtime import Runtime
from hippotune.short import plural
from hippotune.store.base import Store
from hippotune.store.files import checkpoint_folder
from hippotune.store.homes import checkpoints_url, write_url
from hippotune.store.memory import MemoryStore
from hippotune.store.secret import FILE_NAME as SECRET_FILE
from hippotune.study.start import find_start

if TYPE_CHECKING:
    from hippotune.study.study import Study


@dataclass(frozen=True)
class StudyOptions:
    """What a study wants of its plan, and where that is kept; opening it completes the `job`."""

    listed_name: str
    job: Job
    engine: EngineOptions
    executor: Executor
    home: Path
    storage: str | None
    store_url: str | None

    @classmethod
    def of(cls, study: Study) -> StudyOptions:
        """Return the options of a study of this process."""
        proofs = ProofPolicy(study.trainer.__name__, study.exact, study.audit)
        engine = EngineOptions(
            study.width, proofs, study.retries, study.checkpoint_every, study.checkpoint_budget
        )
        place = study.home, study._storage, study._store_url
        return cls(study._listed_name, job_of(study), engine, study.executor, *place)


def job_of(study: Study) -> Job:
    """Return what a process needs to know that trains for a study of this one."""
    start = find_start(study.start, study.home)
    return Job(study.trainer, study.settings, study.seed, start=start, study=study.name)


@dataclass
class Opened:
    """An open plan; `notes` are shown with progress, `warnings` always."""

    runtime: Runtime
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def open_plan(options: StudyOptions, identity: Identity, versions: Mapping[str, str], waived: bool) -> Opened:
    """Open the plan of an identity, making it where it is new; versions may differ where that is `waived`."""
    notes: list[str] = []
    warnings: list[str] = []
    store, threads = _open_store(options, identity, versions, waived, notes)
    try:
        storage = None
        if options.storage is not None and not options.executor.virtual:
            storage = _claimed_url(options.home, options.storage, identity.key.digest)
        job = replace(
            options.job,
            checkpoints=checkpoint_folder(options.home, identity.key),
            threads=threads,
            code=identity.code,
            storage=storage,
            process=changed_settings(),
        )
        runtime = Runtime(store, options.executor, job, options.engine)
        proofs, differs = options.engine.proofs, refutation(runtime.plan.proofs)
        if proofs is not None and proofs.exact and differs is not None:
            raise NotExact(differs.text, differs.path, differs.step)
    except BaseException:
        store.close()
        raise
    if runtime.set_aside is not None:
        warnings.append(str(runtime.set_aside))
    if runtime.refused_checkpoints:
        key_file = options.home / SECRET_FILE
        which = plural(runtime.refused_checkpoints, "checkpoint")
        warnings.append(
            f"{which} cannot be used: not written by this plan's own workers with this version of Hippo, or "
            f"the key file {key_file} was replaced. The steps that depend on them are trained again"
        )
    if options.engine.width is not None and (narrow := width_refutation(runtime.plan.proofs)) is not None:
        notes.append(narrow.text)
    if runtime.found_results or runtime.found_checkpoints:
        results = plural(runtime.found_results, "result")
        notes.append(f"found in the plan: {results}, {plural(runtime.found_checkpoints, 'checkpoint')}")
    return Opened(runtime, notes, warnings)


def _claimed_url(home: Path, url: str, digest: str) -> str | None:
    """Have the home say which URL it belongs to; return where the checkpoints of a plan are."""
    if url.startswith("memory:"):
        raise InvalidInput(
            f"home is {url!r}, and workers are other processes, with a memory of their own: "
            "expected a folder, or the URL of a bucket"
        )
    write_url(home, url)
    return checkpoints_url(home, digest)


def _open_store(
    options: StudyOptions, identity: Identity, versions: Mapping[str, str], waived: bool, notes: list[str]
) -> tuple[Store, int | None]:
    """Open the plan's store; returns it with the number of threads that the plan keeps."""
    if options.executor.virtual:
        return MemoryStore(), None
    from hippotune.store.catalog import open_store

    name, key, usual = options.job.study, identity.key, options.executor.usual_threads
    now = Origin(identity.parts, versions, key.threads or usual)
    catalog = open_store(options.home, options.store_url)
    try:
        known = catalog.origin(key)
        if known is not None:
            notes += noted_versions(name, known, now, waived=waived)
            notes += noted_threads(known, usual if key.threads is None else key.threads)
        before = catalog.bind(options.listed_name, key, now)
        if before is not None:
            said = said_of_move(catalog.origin(before), now)
            notes.append(
                f"{said} since study {name!r} last ran: "
                + ("a new plan begins (the old one is kept)" if known is None else "an earlier plan goes on")
            )
        return catalog.plan(key), (known or now).threads
    except BaseException:
        catalog.close()
        raise
