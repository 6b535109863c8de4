"""Weights & Biases: a run for each trial or stretch, in a group that is called after the study.

A row is logged with its step as ``step``, the axis of all charts, and its own time. Runs have ids that follow
from the plan, so that a run that is taken up again is the same one. Offline, it then has a further folder;
what the others hold already is not written again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hippotune.sinks.base import (
    CursorFile,
    Model,
    Points,
    Record,
    Row,
    Run,
    RunEnded,
    Sink,
    Source,
    need,
    runs_per,
)

STEP = "step"
_MOST_OPEN, _MOST_KNOWN = 64, 1024
# What W&B notes of this process says nothing of the workers, and takes a tenth of a second for each run.
_QUIET: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "disable_git": True,
    "disable_code": True,
    "disable_job_creation": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}


class WandB(Sink):
    """Runs of W&B below a folder; with ``mode="online"`` also on their server."""

    def __init__(
        self,
        project: str | None = None,
        mode: str = "offline",
        folder: str | Path = ".",
        runs: str = "trial",
        **options: Any,
    ) -> None:
        need("wandb", "sinks.WandB", "wandb")
        self.project = project
        self.mode = mode
        self.folder = Path(folder)
        self.runs = runs_per(runs)
        self._options = options
        self._source: Source
        self._cursor: CursorFile
        self._number = 0
        self._open: dict[str, Any] = {}
        self._failed: dict[str, bool] = {}
        self._known: dict[str, set[tuple[str, int]]] = {}

    def open(self, source: Source) -> int:
        """Make the folder."""
        self.close()
        self._source = source
        place = self.folder / "wandb"
        place.mkdir(parents=True, exist_ok=True)
        self._cursor = CursorFile(place / f"hippo-{self._id('')}.json", source)
        return self._cursor.read()

    def _id(self, run: str) -> str:
        """Return what a run is known by: letters and digits, the same in every process."""
        source = f"{self._source.study}\0{self._source.plan}\0{self.runs}"
        digest = hashlib.sha256(source.encode(errors="replace")).hexdigest()[:10]
        return f"{digest}-{run.replace('.', '-')}" if run else digest

    def write(self, records: Sequence[Record]) -> None:
        """Log rows, in order."""
        for record in records:
            name = record.run.name
            match record:
                case Points(run, rows):
                    self._log(run, rows)
                case RunEnded(_, _, failed):
                    self._failed[name] = failed
                case Model(run, path):
                    self._keep(self._run(run), path)
                case _:
                    self._run(record.run)

    def _keep(self, opened: Any, path: Path) -> None:
        """Copy a file to those of a run; W&B would keep a link to it."""
        copied = shutil.copy(path, opened.dir)
        opened.save(copied, base_path=opened.dir, policy="now")

    def _log(self, run: Run, rows: Sequence[Row]) -> None:
        opened, known = self._run(run), self._known[run.name]
        for step, time, numbers in rows:
            new = {name: float(value) for name, value in numbers.items() if (name, step) not in known}
            if new:
                opened.log({STEP: step, "_timestamp": time, **new})
                known.update((name, step) for name in new)

    def _run(self, run: Run) -> Any:
        if run.name in self._open:
            self._open[run.name] = opened = self._open.pop(run.name)  # it was used last
            return opened
        import wandb

        if len(self._open) >= _MOST_OPEN:
            self._finish(next(iter(self._open)))

        number = self._id(run.name)
        # What this process has logged may not be in a file yet, though the run is finished.
        known = self._known.pop(run.name, set())
        self._known[run.name] = known.union(_logged(self.folder / "wandb", number))
        tags = [] if run.parent is None else [f"parent:{run.parent}@{run.start}"]
        opened = wandb.init(
            project=self.project or self._source.study,
            id=number,
            name=run.name,
            group=self._source.study,
            config=dict(run.values()),
            tags=tags,
            dir=str(self.folder),
            mode=self.mode,  # type: ignore[arg-type]
            reinit="create_new",
            resume="allow" if self.mode == "online" else None,
            settings=wandb.Settings(**_QUIET),
            **self._options,
        )
        opened.define_metric("*", step_metric=STEP)
        self._open[run.name] = opened
        return opened

    def save(self, number: int) -> None:
        """Remember the number: it is written when runs are finished. Until then, W&B may not have it all."""
        self._number = number

    def close(self) -> None:
        """Finish the runs that are open, and note how far that is in a file beside them."""
        for name in list(self._open):
            self._finish(name)
        if self._number:
            self._cursor.write(self._number)
            self._number = 0

    def _finish(self, name: str) -> None:
        self._open.pop(name).finish(exit_code=int(self._failed.get(name, False)))
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(each for each in self._known if each not in self._open)]


def _logged(place: Path, number: str) -> Iterator[tuple[str, int]]:
    """Yield the names and steps of what the folders of a run hold."""
    for path in place.glob(f"*/run-{number}.wandb"):
        for row in read_history(path):
            if isinstance(step := row.get(STEP), int):
                yield from ((name, step) for name in row)


def read_history(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows that a file of W&B holds."""
    for record in read_records(path):
        if record.HasField("history"):
            items = record.history.item
            yield {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items}


def read_records(path: Path) -> Iterator[Any]:
    """Yield what a file of W&B holds, up to the last whole record."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    messages: Any = wandb_internal_pb2
    store = DataStore()
    try:
        store.open_for_scan(str(path))  # type: ignore[no-untyped-call]
    except AssertionError:  # how it says that the beginning was cut
        return
    while True:
        try:
            data = store.scan_data()  # type: ignore[no-untyped-call]
        except AssertionError:  # and here, a record
            return
        if data is None:
            return
        record = messages.Record()
        record.ParseFromString(data)
        yield record
