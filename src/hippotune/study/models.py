"""The trained models of a study: kept in checkpoints, loaded, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.errors import CheckpointError, HippoError, TrialFailed
from hippotune.plan.facts import Checkpoint, Position
from hippotune.sequences.config import Config
from hippotune.shell.loop_thread import PlanClosed
from hippotune.shell.runtime import Runtime
from hippotune.store.homes import open_checkpoints
from hippotune.study.best import Best
from hippotune.study.start import find_start
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Result, Trial, TrialGroup

if TYPE_CHECKING:
    from hippotune.study.connection import Connection
    from hippotune.study.study import Study
    from hippotune.study.tuning import Tuning
    from hippotune.trainers.loading import Opener


@dataclass(frozen=True, slots=True)
class Held:
    """A checkpoint that stays, even above the budget, until it is released on the engine's thread."""

    runtime: Runtime
    checkpoint: Checkpoint
    metrics: Mapping[str, float]
    release: Callable[[], None]


def failed_trial(result: Result) -> TrialFailed:
    """Return what to raise for a trial that has come to nothing."""
    if not result.suspended:
        return TrialFailed(f"the trial failed at step {result.step}:\n{result.error}")
    return TrialFailed(
        f"the trial is suspended: its workers were lost again and again at step {result.step}. "
        f"To try it again, see hippo retry --help:\n{result.error}"
    )


@contextmanager
def releasing_on_errors(keeping: Tuning) -> Iterator[None]:
    """Where the block is left by an error, the checkpoints that it kept are subject to the budget again."""
    try:
        yield
    except BaseException:
        keeping.release()
        raise


def _opened(place: tuple[Path, str | None], checkpoint: Checkpoint) -> AbstractContextManager[Any]:
    return open_checkpoints(*place).read(checkpoint)


class Models:
    """The models of one study."""

    def __init__(self, study: Study, connection: Connection) -> None:
        self._study = study
        self._connection = connection

    async def best(self, result: Result, runtime: Runtime) -> Best:
        """Return the best result with its model.

        One that was measured on the way, where nothing was saved, is trained again only when it is loaded.
        """
        trial, step = result.trial, result.step
        assert result.metrics is not None
        listed = self._study._listed_name
        without_model = Best(
            trial.number, trial.config, step, result.metrics, None, listed, partial(self.load, trial, step)
        )
        if not (result.final or self._is_kept(trial, step, runtime)):
            return without_model
        try:
            held = await self._hold(trial, step, runtime)
        except TrialFailed:  # it had to be trained again: there is no model, but a result
            return without_model
        except CheckpointError as error:  # damaged, and damaged again when it was trained again
            runtime.loop.note(f"the best result comes without a model: {error}")
            return without_model
        held.release()
        path = None if self._study.executor.virtual else held.runtime.files.local_path(held.checkpoint)
        load = partial(self._load_best, trial, step, held)
        return Best(trial.number, trial.config, step, result.metrics, path, listed, load)

    def _is_kept(self, trial: Trial, step: int, runtime: Runtime) -> bool:
        isolation_key = self._study._tuning(runtime.loop).placement.isolation_key(trial)
        return step in runtime.plan.find(trial.config, step, isolation_key).holder(step).checkpoints

    def load(self, who: Config | Trial, step: int, bare: bool = False) -> Trainer:
        """Return a trainer with the state of a trial after `step` steps; see `Session` for `bare`."""
        return self.load_with_metrics(who, step, bare)[0]

    def load_with_metrics(
        self, who: Config | Trial, step: int, bare: bool = False
    ) -> tuple[Trainer, Mapping[str, float]]:
        """Return a trainer with the state of a trial, and its metrics there, training what is missing."""
        with self._held(who, step) as held:
            config = who.config if isinstance(who, Trial) else self._study._completion(who)
            return self._load(config, step, held, bare), held.metrics

    def export(self, config: Config, step: int, path: str | Path) -> Path:
        """Write the model of a trial after `step` steps to a file."""
        from hippotune.study.exports import Origin, export

        trainer, metrics = self.load_with_metrics(config, step)
        return export(trainer, Origin(self._study._listed_name, config, step, metrics), path)

    @contextmanager
    def _held(self, who: Config | Trial, step: int) -> Iterator[Held]:
        """Keep the checkpoint of a trial after `step` steps, training what is missing, within the block."""
        if self._study.executor.virtual:
            raise HippoError("the study runs in virtual time: there is no trained model to load")
        held = self._connection.run(partial(self._hold, who, step))
        try:
            yield held
        finally:
            with suppress(PlanClosed):
                held.runtime.ask(held.release)

    @contextmanager
    def opener(self, config: Config, step: int) -> Iterator[Opener]:
        """Return, for the block, what opens the checkpoint of a trial in any process of this machine."""
        with self._held(config, step) as held:
            yield partial(_opened, held.runtime.place, held.checkpoint)

    async def _hold(self, who: Config | Trial, step: int, runtime: Runtime) -> Held:
        """See to it that a trial's state is in a checkpoint that is whole, training again what is not."""
        keeping = self._study._tuning(runtime.loop, keep=True)
        with releasing_on_errors(keeping):
            for _ in range(2):
                (result,) = await keeping.once(TrialGroup(((who, step),)))
                who = result.trial
                if result.failed:
                    raise failed_trial(result)
                node = runtime.plan.find(who.config, step, keeping.placement.isolation_key(who)).holder(step)
                if await runtime.is_whole(Position(node.id, step)):
                    assert result.metrics is not None
                    return Held(runtime, node.checkpoints[step], result.metrics, keeping.release)
            raise CheckpointError(
                f"the checkpoint at step {step} was damaged right after it was saved: check the disk that "
                f"holds {runtime.files.where}"
            )

    def _load_best(self, trial: Trial, step: int, held: Held, bare: bool = False) -> Trainer:
        if not self._study.executor.virtual:
            with suppress(CheckpointError):
                return self._load(trial.config, step, held, bare)
        return self.load(trial, step, bare)

    def _load(self, config: Config, step: int, held: Held, bare: bool) -> Trainer:
        return self._loaded(config, step, partial(held.runtime.files.read, held.checkpoint), bare)

    def _loaded(self, config: Config, step: int, opened: Opener, bare: bool = False) -> Trainer:
        from hippotune.trainers.loading import load_trainer

        study = self._study
        start = find_start(study.start, study.home)
        return load_trainer(study.trainer, study.settings, study.seed, start, config, step, opened, bare)
