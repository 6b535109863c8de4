"""The trained models of a study on a server: kept there, exported as data, or loaded whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.durable import replacing
from hippotune.errors import HippoError, TrialFailed
from hippotune.scratch import Scratch
from hippotune.sequences.config import Config
from hippotune.serve.bodies import Located, WhichModel
from hippotune.shell.loop_thread import Closed
from hippotune.study.best import Best
from hippotune.study.models import Opener, failed_trial
from hippotune.study.start import find_start
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Result, Trial, TrialGroup

if TYPE_CHECKING:
    from hippotune.serve.client.connection import RemoteConnection
    from hippotune.shell.runtime import Runtime
    from hippotune.study.study import Study
    from hippotune.study.tuning import Tuning


@dataclass(frozen=True, slots=True)
class RemoteBest(Best):
    """The best result; its model comes from the server."""

    def export(self, path: str | Path) -> Path:
        """Write the model as a file that is read without the trainer's code, and return its path."""
        export: partial[Path] = self._load.keywords["export"]  # type: ignore[attr-defined]
        return export(path)


class RemoteModels:
    """The models of one study; it has the surface of `study.models.Models`."""

    def __init__(self, study: Study, connection: RemoteConnection) -> None:
        self._study = study
        self._connection = connection

    async def best(self, result: Result, runtime: Runtime) -> Best:
        """Return the best result. That of one on the way to a step waits until it is loaded."""
        trial, step = result.trial, result.step
        assert result.metrics is not None
        if not result.final:
            return self.described(trial, step, result.metrics, None)
        path = None
        with suppress(TrialFailed):
            keeping, _ = await self._hold(trial, step, runtime)
            which = WhichModel(trial.config.to_json(), step, keeping.isolation_key(trial))
            address = f"/plans/{self._connection.remote.key}/located"
            ask = partial(self._connection.api.call, "POST", address, which, Located)
            found: Located = await asyncio.to_thread(self._connection.remote.while_open, ask)
            path = Path(found.path)
            keeping.let_go()
        return self.described(trial, step, result.metrics, path)

    def described(self, trial: Trial, step: int, metrics: Mapping[str, float], path: Path | None) -> Best:
        """Return a best result of which the server has the model."""
        export = partial(self.export, trial, step)
        load = partial(self._load_best, trial, step, export=export)
        listed = self._study._listed_name
        return RemoteBest(trial.number, trial.config, step, metrics, path, listed, load)

    def _load_best(self, trial: Trial, step: int, bare: bool = False, **_: object) -> Trainer:
        return self.load(trial, step, bare)

    def load(self, who: Config | Trial, step: int, bare: bool = False) -> Trainer:
        """Return a trainer with the state of a trial after `step` steps."""
        return self.load_with_metrics(who, step, bare)[0]

    def load_with_metrics(
        self, who: Config | Trial, step: int, bare: bool = False
    ) -> tuple[Trainer, Mapping[str, float]]:
        """Return a trainer with the state of a trial, and its metrics there, training what is missing."""
        from hippotune.trainers.session import Session

        study = self._study
        with Scratch() as folder:
            file = folder / "checkpoint"
            which, metrics = self._fetch_whole(who, step, file)
            start = find_start(study.start, study.home)
            session = Session(study.trainer, study.settings, study.seed, bare, start=start)
            with file.open("rb") as source:
                session.start(Config.from_json(which.config), step, source, warm=False)
            return session.release(), metrics

    @contextmanager
    def opener(self, config: Config, step: int) -> Iterator[Opener]:
        """Return, for the block, what opens a copy of the checkpoint of a trial."""
        with Scratch() as folder:
            file = folder / "checkpoint"
            self._fetch_whole(config, step, file)
            yield partial(file.open, "rb")

    def export(self, who: Config | Trial, step: int, path: str | Path) -> Path:
        """Write the model of a trial after `step` steps to a file."""
        target = Path(path)
        with replacing(target) as temporary:
            self._fetch("export", who, step, temporary, target.suffix)
        return target

    def _fetch_whole(
        self, who: Config | Trial, step: int, file: Path
    ) -> tuple[WhichModel, Mapping[str, float]]:
        if not self._connection.api.is_private:
            raise HippoError(
                f"a whole trainer is not loaded over {self._connection.api.url}, where it could be changed "
                "on its way: use https, or export the model as data"
            )
        return self._fetch("checkpoint", who, step, file)

    def _fetch(
        self, what: str, who: Config | Trial, step: int, file: Path, suffix: str = ".pt"
    ) -> tuple[WhichModel, Mapping[str, float]]:
        """Have a state kept, and fetch it."""
        keeping, result = self._connection.run(partial(self._hold, who, step))
        try:
            config, key = result.trial.config.to_json(), keeping.isolation_key(result.trial)
            suffix = suffix if suffix == ".safetensors" else ".pt"
            which = WhichModel(config, step, key, self._study._listed_name, suffix)
            remote = self._connection.remote
            address = f"/plans/{remote.key}/{what}"
            remote.while_open(partial(self._connection.api.download, address, which, file))
        finally:
            with suppress(Closed):
                self._connection.remote.ask(keeping.let_go)
        assert result.metrics is not None
        return which, result.metrics

    async def _hold(self, who: Config | Trial, step: int, runtime: Runtime) -> tuple[Tuning, Result]:
        """See to it that a trial's state is in a checkpoint, until it is let go."""
        keeping = self._study._tuning(runtime.loop, keep=True)
        (result,) = await keeping.once(TrialGroup(((who, step),)))
        if result.failed:
            keeping.let_go()
            raise failed_trial(result)
        return keeping, result
