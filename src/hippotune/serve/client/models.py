"""The trained models of a study on a server: kept there, exported as data, or loaded whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.durable import replacing
from hippotune.errors import HippoError, TrialFailed
from hippotune.scratch import Scratch
from hippotune.sequences.config import Config
from hippotune.serve.bodies import Located, WhichModel
from hippotune.shell.loop_thread import PlanClosed
from hippotune.study.best import Best
from hippotune.study.models import Models, failed_trial, releasing_on_errors
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Result, Trial, TrialGroup

if TYPE_CHECKING:
    from hippotune.serve.client.connection import RemoteConnection
    from hippotune.shell.runtime import Runtime
    from hippotune.study.tuning import Tuning
    from hippotune.trainers.loading import Opener


class RemoteModels(Models):
    """The models of one study."""

    _connection: RemoteConnection

    async def best(self, result: Result, runtime: Runtime) -> Best:
        """Return the best result. That of one on the way to a step waits until it is loaded."""
        trial, step = result.trial, result.step
        assert result.metrics is not None
        if not result.final:
            return self.described(trial, step, result.metrics, None)
        path = None
        with suppress(TrialFailed):
            keeping, _ = await self._keep(trial, step, runtime)
            try:
                which = WhichModel(trial.config.to_json(), step, keeping.placement.isolation_key(trial))
                address = f"/plans/{self._connection.remote.key}/located"
                ask = partial(self._connection.api.call, "POST", address, which, Located)
                found: Located = await asyncio.to_thread(self._connection.remote.while_open, ask)
            finally:
                keeping.release()
            path = Path(found.path)
        return self.described(trial, step, result.metrics, path)

    def described(self, trial: Trial, step: int, metrics: Mapping[str, float], path: Path | None) -> Best:
        """Return a best result of which the server has the model."""
        load, export = partial(self.load, trial, step), partial(self.export, trial, step)
        listed = self._study._listed_name
        return Best(trial.number, trial.config, step, metrics, path, listed, load, _export=export)

    def load_with_metrics(
        self, who: Config | Trial, step: int, bare: bool = False
    ) -> tuple[Trainer, Mapping[str, float]]:
        """Return a trainer with the state of a trial, and its metrics there, training what is missing."""
        with Scratch() as folder:
            file = folder / "checkpoint"
            which, metrics = self._fetch_whole(who, step, file)
            config = Config.from_json(which.config)
            return self._loaded(config, step, partial(file.open, "rb"), bare), metrics

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
        keeping, result = self._connection.run(partial(self._keep, who, step))
        try:
            config, key = result.trial.config.to_json(), keeping.placement.isolation_key(result.trial)
            suffix = suffix if suffix == ".safetensors" else ".pt"
            which = WhichModel(config, step, key, self._study._listed_name, suffix)
            remote = self._connection.remote
            address = f"/plans/{remote.key}/{what}"
            remote.while_open(partial(self._connection.api.download, address, which, file))
        finally:
            with suppress(PlanClosed):
                self._connection.remote.ask(keeping.release)
        assert result.metrics is not None
        return which, result.metrics

    async def _keep(self, who: Config | Trial, step: int, runtime: Runtime) -> tuple[Tuning, Result]:
        """See to it that a trial's state is in a checkpoint, until it is let go."""
        keeping = self._study._tuning(runtime.loop, keep=True)
        with releasing_on_errors(keeping):
            (result,) = await keeping.once(TrialGroup(((who, step),)))
            if result.failed:
                raise failed_trial(result)
            return keeping, result
