"""MLflow: an experiment for a study, and in it a run for each trial or stretch.

MLflow's own tables keep one metric for each name, step and time of a run: what is written again changes
nothing. How far the log was written is a tag of the experiment.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.sinks.base import (
    Model,
    Points,
    Record,
    Run,
    RunEnded,
    RunStarted,
    Sink,
    Source,
    need,
    runs_per,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

_STUDY, _RUN, _PLAN, _PARENT = "hippo.study", "hippo.run", "hippo.plan", "hippo.parent"
_MOST_METRICS, _MOST_PARAMS, _MOST_CHARACTERS = 1000, 100, 500


class MLflow(Sink):
    """Runs of MLflow: in a database (``sqlite:///mlflow.db``) or on a server (``http://host:5000``)."""

    def __init__(
        self, tracking_uri: str = "sqlite:///mlflow.db", experiment: str | None = None, runs: str = "trial"
    ) -> None:
        need("mlflow", "sinks.MLflow", "mlflow")
        self.tracking_uri = tracking_uri
        self.experiment = experiment
        self.runs = runs_per(runs)
        self._client: MlflowClient
        self._source: Source
        self._experiment = ""
        self._known: dict[str, str] = {}

    def open(self, source: Source) -> int:
        """Find the experiment, or make it, and the runs of the study in it."""
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # it tells how tables are made
        from mlflow import MlflowClient

        self._source = source
        self._client = client = MlflowClient(self.tracking_uri)
        name = self.experiment or source.study
        found = client.get_experiment_by_name(name)
        if found is None:
            self._experiment = client.create_experiment(name, self._files)
        else:
            self._experiment = found.experiment_id
        self._known = self._runs()
        tag = ({} if found is None else found.tags).get(self._tag, "")
        incarnation, _, number = str(tag).partition(":")
        return int(number) if incarnation == source.incarnation else 0

    @property
    def _files(self) -> str | None:
        """Where files of runs go: beside a database in a file; else MLflow knows."""
        scheme, _, file = self.tracking_uri.partition(":///")
        return (Path(file).absolute().parent / "mlartifacts").as_uri() if scheme == "sqlite" else None

    @property
    def _tag(self) -> str:
        return f"hippo.log.{self._source.study}.{self._source.plan}.{self.runs}"

    def _runs(self) -> dict[str, str]:
        """Return the ids of the study's runs, by name."""
        filter_string = f"tags.`{_PLAN}` = '{self._source.plan}'"
        found: dict[str, str] = {}
        token = None
        while True:
            page = self._client.search_runs([self._experiment], filter_string, page_token=token)
            for run in page:
                if run.data.tags.get(_STUDY) == self._source.study:
                    found[run.data.tags[_RUN]] = run.info.run_id
            token = page.token
            if not token:
                return found

    def write(self, records: Sequence[Record]) -> None:
        """Make runs, and log their metrics in batches."""
        from mlflow.entities import Metric

        metrics: dict[str, list[Any]] = {}
        for record in records:
            run = self._known.get(record.run.name) or self._make(record.run, getattr(record, "time", None))
            match record:
                case RunStarted(started):
                    self._configure(run, started)
                case Points(rows=rows):
                    metrics.setdefault(run, []).extend(
                        Metric(_allowed(name), float(number), round(1000 * moment), step)
                        for step, moment, numbers in rows
                        for name, number in numbers.items()
                    )
                case RunEnded(_, time, failed):
                    status = "FAILED" if failed else "FINISHED"
                    self._client.set_terminated(run, status, round(1000 * time))
                case Model(_, path):
                    if path.name not in {file.path for file in self._client.list_artifacts(run)}:
                        self._client.log_artifact(run, str(path))
        for run, batch in metrics.items():
            for first in range(0, len(batch), _MOST_METRICS):
                self._client.log_batch(run, metrics=batch[first : first + _MOST_METRICS], synchronous=True)

    def _make(self, run: Run, time: float | None) -> str:
        tags = {_STUDY: self._source.study, _PLAN: self._source.plan, _RUN: run.name}
        if run.parent is not None:
            tags[_PARENT] = f"{run.parent}@{run.start}"
            if run.parent in self._known:
                tags["mlflow.parentRunId"] = self._known[run.parent]
        started = None if time is None else round(1000 * time)
        made = self._client.create_run(self._experiment, started, tags, run.name)
        self._known[run.name] = number = str(made.info.run_id)
        return number

    def _configure(self, number: str, run: Run) -> None:
        from mlflow.entities import Param

        values = {_allowed(name): str(value)[:_MOST_CHARACTERS] for name, value in run.values().items()}
        params = [Param(name, value) for name, value in values.items()]
        for first in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(number, params=params[first : first + _MOST_PARAMS], synchronous=True)

    def save(self, number: int) -> None:
        """Note the number as a tag of the experiment."""
        self._client.set_experiment_tag(self._experiment, self._tag, f"{self._source.incarnation}:{number}")


def _allowed(name: str) -> str:
    """Return a name with the characters that MLflow takes."""
    return "".join(letter if letter.isalnum() or letter in "_-. /:" else "_" for letter in name) or "_"
