"""A study on a server, for sinks that are fed here: its log, and the model of its best trial."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from hippotune.errors import HippoError
from hippotune.history.studies import asked_as
from hippotune.serve.bodies import WhichModel
from hippotune.serve.client.api import Api
from hippotune.serve.client.catalog import remote_info
from hippotune.serve.client.facts import ServedLog
from hippotune.serve.client.following import address
from hippotune.serve.definition import PlanOpened
from hippotune.serve.records import StudyRecord
from hippotune.store.base import Store


class RemoteLog:
    """See the module. The model is written to a folder."""

    def __init__(self, url: str, name: str, plan: str | None, folder: Path) -> None:
        self._api = Api(url)
        self._folder = folder
        self.info = remote_info(self._api, name, plan)

    def open(self) -> AbstractContextManager[Store]:
        """Open the log of the study's plan."""
        return nullcontext(ServedLog(self._api, self.info.key.digest))

    def model(self) -> tuple[int, Path] | None:
        """Fetch the best model of a study that the server has tuned; None where that cannot be had."""
        try:
            return self._model()
        except HippoError:
            return None

    def _model(self) -> tuple[int, Path] | None:
        name, _ = asked_as(self.info)
        record: StudyRecord = self._api.call_once("GET", address(name), None, StudyRecord)
        end, definition = record.end, record.submission.definition
        if end is None or end.best is None or end.key != self.info.key.digest:
            return None
        number, step = end.best
        (trial,) = (each for each in end.trials if each.number == number)
        opened: PlanOpened = self._api.call_once("POST", "/plans", definition, PlanOpened)
        isolation_key = "" if definition.share else str(number)
        which = WhichModel(trial.config, step, isolation_key, self.info.name, ".pt")
        path = self._folder / f"trial-{number}-step-{step}.pt"
        self._api.download(f"/plans/{opened.key}/export", which, path)
        return number, path
