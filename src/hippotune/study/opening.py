"""Opening the plan of a study: its store, its runtime, and what is to be said of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.errors import InvalidInput, NotExact
from hippotune.executors.base import Executor, Job, Parcel
from hippotune.identity.key import Identity, Origin
from hippotune.identity.opening import noted_threads, noted_versions, said_of_move
from hippotune.identity.process import changed_settings
from hippotune.plan.facts import refutation, width_refutation
from hippotune.protocol.failures import Retries
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.policy import WidthPolicy
from hippotune.shell.runtime import Runtime
from hippotune.short import plural
from hippotune.store.base import Store
from hippotune.store.files import checkpoint_folder
from hippotune.store.homes import checkpoints_url, write_url
from hippotune.store.memory import MemoryStore
from hippotune.store.secret import FILE_NAME as SECRET_FILE
from hippotune.study.start import find_start
from hippotune.trainers.base import Trainer

if TYPE_CHECKING:
    from hippotune.study.study import Study


@dataclass(frozen=True)
class StudyOptions:
    """What a study wants of its plan, and where that is kept; see `Study` for each of them.

    Where the trainer is not to be opened in this process, there is a `parcel` in its place.
    """

    name: str
    listed_name: str
    trainer: type[Trainer] | None
    trainer_name: str
    home: Path
    storage: str | None
    store_url: str | None
    executor: Executor
    settings: Mapping[str, Any]
    seed: int
    start: str | Path | None = None
    width: WidthPolicy | None = None
    exact: bool = True
    audit: float = 0.01
    retries: Retries = Retries()  # noqa: RUF009
    checkpoint_every: float | None = 600
    checkpoint_budget: int | None = None
    parcel: Parcel | None = None
    fits: Callable[[Mapping[str, Any], int], bool] | None = None

    @classmethod
    def of(cls, study: Study) -> StudyOptions:
        """Return the options of a study of this process."""
        return cls(
            name=study.name,
            listed_name=study._listed_name,
            trainer=study.trainer,
            trainer_name=study.trainer.__name__,
            home=study.home,
            storage=study._storage,
            store_url=study._store_url,
            executor=study.executor,
            settings=study.settings,
            seed=study.seed,
            start=study.start,
            width=study.width,
            exact=study.exact,
            audit=study.audit,
            retries=study.retries,
            checkpoint_every=study.checkpoint_every,
            checkpoint_budget=study.checkpoint_budget,
        )


@dataclass
class Opened:
    """An open plan; `notes` are shown with progress, `warnings` always."""

    runtime: Runtime
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def open_plan(study: StudyOptions, identity: Identity, versions: Mapping[str, str], waived: bool) -> Opened:
    """Open the plan of an identity, making it where it is new; versions may differ where that is `waived`."""
    notes: list[str] = []
    warnings: list[str] = []
    store, threads = _open_store(study, identity, versions, waived, notes)
    packing = 1 if study.width is None else study.width.packing
    folder, storage = checkpoint_folder(study.home, identity.key), None
    if study.storage is not None and not study.executor.virtual:
        storage = _claimed_url(study, identity.key.digest)
    start = find_start(study.start, study.home)
    job = Job(
        study.trainer,
        settings=study.settings,
        seed=study.seed,
        checkpoints=folder,
        packing=packing,
        threads=threads,
        code=identity.code,
        start=start,
        study=study.name,
        storage=storage,
        parcel=study.parcel,
        fits=study.fits,
        process=changed_settings(),
    )
    try:
        runtime = Runtime(
            store,
            study.executor,
            job,
            budget=study.checkpoint_budget,
            policy=study.width,
            proofs=ProofPolicy(study.trainer_name, study.exact, study.audit),
            retries=study.retries,
            checkpoint_every=study.checkpoint_every,
        )
        if study.exact and (differs := refutation(runtime.plan.proofs)) is not None:
            raise NotExact(differs.text, differs.path, differs.step)
    except BaseException:
        store.close()
        raise
    if runtime.set_aside is not None:
        warnings.append(str(runtime.set_aside))
    if runtime.refused_checkpoints:
        key_file = study.home / SECRET_FILE
        which = plural(runtime.refused_checkpoints, "checkpoint")
        warnings.append(
            f"{which} cannot be used: not written by this plan's own workers with this version of Hippo, or "
            f"the key file {key_file} was replaced. The steps that depend on them are trained again"
        )
    if study.width is not None and (narrow := width_refutation(runtime.plan.proofs)) is not None:
        notes.append(narrow.text)
    if runtime.found_results or runtime.found_checkpoints:
        results = plural(runtime.found_results, "result")
        notes.append(f"found in the plan: {results}, {plural(runtime.found_checkpoints, 'checkpoint')}")
    return Opened(runtime, notes, warnings)


def _claimed_url(study: StudyOptions, digest: str) -> str | None:
    """Have the home say which URL it belongs to; return where the checkpoints of a plan are."""
    assert study.storage is not None
    if study.storage.startswith("memory:"):
        raise InvalidInput(
            f"home is {study.storage!r}, and workers are other processes, with a memory of their own: "
            "expected a folder, or the URL of a bucket"
        )
    write_url(study.home, study.storage)
    return checkpoints_url(study.home, digest)


def _open_store(
    study: StudyOptions, identity: Identity, versions: Mapping[str, str], waived: bool, notes: list[str]
) -> tuple[Store, int | None]:
    """Open the plan's store; returns it with the number of threads that the plan keeps."""
    if study.executor.virtual:
        return MemoryStore(), None
    from hippotune.store.catalog import open_store

    key, usual = identity.key, study.executor.usual_threads
    now = Origin(identity.parts, versions, key.threads or usual)
    catalog = open_store(study.home, study.store_url)
    try:
        known = catalog.origin(key)
        if known is not None:
            notes += noted_versions(study.name, known, now, waived=waived)
            notes += noted_threads(known, usual if key.threads is None else key.threads)
        before = catalog.bind(study.listed_name, key, now)
        if before is not None:
            said = said_of_move(catalog.origin(before), now)
            notes.append(
                f"{said} since study {study.name!r} last ran: "
                + ("a new plan begins (the old one is kept)" if known is None else "an earlier plan goes on")
            )
        return catalog.plan(key), (known or now).threads
    except BaseException:
        catalog.close()
        raise
