"""Lightning: a step of Hippo is an epoch of the fit loop, or some batches of it.

The Lightning ``Trainer`` is made anew in every process and holds no state: the module, its optimizers,
callbacks and the loop's counters are the state, and are put into it. The hooks that begin a run (``setup``,
``on_fit_start``, ``on_train_start``) are called once for a trial, the others as in ``fit``.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from hippotune import checks
from hippotune.errors import MissingExtra, TrainerError

try:
    import lightning
    from lightning.pytorch import callbacks as known
    from lightning.pytorch.trainer import call
    from lightning.pytorch.trainer.connectors.data_connector import _DataHookSelector
    from lightning.pytorch.trainer.states import TrainerFn, TrainerStatus
    from lightning.pytorch.utilities.parsing import clean_namespace
except ImportError as error:
    raise MissingExtra("LightningTrainer needs Lightning: pip install 'hippotune[lightning]'") from error

from hippotune.adapters.batches import TUNER, Batches, Held, Live, check_held, check_order, loader_like
from hippotune.trainers import seeding
from hippotune.trainers.torch.trainer import TorchTrainer

_SCHEDULE = "a schedule is a hyper-parameter, as lr=hippo.Warmup(5, hippo.Cosine(...))"
_REFUSED = {
    known.EarlyStopping: TUNER,
    known.Timer: TUNER,
    known.StochasticWeightAveraging: "it brings a schedule of its own, from the length of a run on",
    known.LearningRateFinder: "the rate is a hyper-parameter: lr",
    known.BatchSizeFinder: "the batch size is a hyper-parameter: bs",
}
_BATCHES = "a step is an epoch, or some of its batches: batches = ..."
_HELD: Held = {
    "fast_dev_run": ((False,), TUNER),
    "max_steps": ((-1, None), TUNER),
    "max_epochs": ((-1, None), f"{TUNER}; leave it out"),
    "min_steps": ((None,), TUNER),
    "min_epochs": ((None,), TUNER),
    "val_check_interval": ((1.0,), TUNER),
    "_val_check_time_interval": ((None,), TUNER),
    "check_val_every_n_epoch": ((1,), TUNER),
    "overfit_batches": ((0.0,), _BATCHES),
    "limit_train_batches": ((None, 1.0), _BATCHES),
    "reload_dataloaders_every_n_epochs": ((0,), "samples are numbered once, for all of a trial"),
}
# For people, for loggers, and Hippo keeps states.
_LEFT_OUT = (
    known.ProgressBar,
    known.ModelSummary,
    known.Checkpoint,
    known.LearningRateMonitor,
    known.DeviceStatsMonitor,
)


class LightningTrainer(TorchTrainer):
    """A ``LightningModule``, trained by Lightning's own fit loop, with the optimizers that it configures.

    Subclasses leave a ``LightningDataModule`` in ``self.datamodule`` in `prepare` (see `set_up`), and a
    ``LightningModule`` in ``self.module`` in `build`. Hyper-parameters: ``lr`` and other fields of the
    optimizers, and ``bs``.

    Attributes
    ----------
    batches : int or None
        Batches in a step; None for an epoch.
    """

    batches: ClassVar[int | None] = None
    widens = False

    module: Any
    datamodule: Any

    @staticmethod
    def set_up(datamodule: Any) -> Any:
        """Return a datamodule after its ``prepare_data`` and ``setup("fit")``. To be called in `prepare`."""
        datamodule.prepare_data()
        datamodule.setup("fit")
        return datamodule

    def make_trainer(self) -> lightning.Trainer:
        """Return a Lightning ``Trainer``. Override it, and pass precision, clipping or callbacks on."""
        return self.lightning_trainer()

    def lightning_trainer(self, **given: Any) -> lightning.Trainer:
        """Return a ``Trainer`` on this worker's device, without loggers and checkpoints, unless given.

        Callbacks that write checkpoints or show progress are left out.
        """
        usual = {
            "accelerator": {"cuda": "gpu"}.get(self.device.type, self.device.type),
            "devices": 1 if self.device.index is None or self.device.type == "cpu" else [self.device.index],
            "max_epochs": -1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        callbacks = given.pop("callbacks", None) or []
        kept = _without_left_out([callbacks] if isinstance(callbacks, lightning.Callback) else callbacks)
        return lightning.Trainer(**{**usual, **given}, callbacks=kept)

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Apply hyper-parameters: to the optimizers and the loader."""
        if not hasattr(self, "progress"):
            self._begin()
        super().setup(hp)

    def train(self) -> None:
        """Train an epoch, or `batches` of it, by the fit loop of Lightning."""
        with _quiet(), self._attached() as trainer:
            loop = trainer.fit_loop
            loop._combined_loader = None  # it may have another length now
            loop.on_advance_start()
            loop.advance()
            loop.on_advance_end()
            if trainer.should_stop:
                raise TrainerError(f"a callback of {type(self).__name__} asked to stop training; {TUNER}")
            self.log(**{name: number.item() for name, number in trainer.callback_metrics.items()})

    def evaluate(self) -> Mapping[str, float]:
        """Return what the module logs in its ``validation_step``."""
        return self.metrics()

    def metrics(self) -> dict[str, float]:
        """Return what Lightning's own ``validate`` finds, by name."""
        gradients = [(part, part.grad) for part in self.module.parameters()]  # validate() drops them
        with _quiet():
            trainer: Any = self.lightning_trainer(**self.validating)
            trainer._callback_connector._attach_model_callbacks = lambda: None
            found = trainer.validate(self.module, self.datamodule.val_dataloader(), verbose=False)
        self.module.trainer = None
        self.module.to(self.device)
        for part, gradient in gradients:
            part.grad = gradient
        return {name: number for each in found for name, number in each.items()}

    # The Trainer, and what is put into it.

    def _begin(self) -> None:
        for name, kind in (("module", "LightningModule"), ("datamodule", "LightningDataModule")):
            if not isinstance(getattr(self, name, None), getattr(lightning, kind)):
                where = "build()" if name == "module" else "prepare()"
                raise TrainerError(
                    f"self.{name} of {type(self).__name__} is no {kind} of the package lightning; make one "
                    f"in {where} (those of pytorch_lightning are others)"
                )
        if self.batches is not None:
            checks.whole("batches", self.batches)
        usual = self._usual_loader()
        check_order(usual, f"train_dataloader() of {type(self.datamodule).__name__}")
        self.loader = loader_like(usual, usual.batch_size, self.seed, usual.drop_last)
        self._live = Live()
        with seeding.put_back(), _quiet():
            trainer: Any = self.make_trainer()
        self._live.trainer = trainer
        _check(trainer)
        self.validating = {
            "precision": trainer.precision,
            "limit_val_batches": trainer.limit_val_batches or 1.0,  # 0 keeps fit() from validating
        }
        self._connect(trainer)
        trainer._callback_connector._attach_model_callbacks()
        trainer._callback_connector._attach_model_logging_functions()
        self.callbacks = trainer.callbacks = _without_left_out(trainer.callbacks)
        _check_callbacks(trainer)
        clean_namespace(self.module.hparams)  # as every run does, also one that validates
        with _quiet():
            trainer.strategy.setup_environment()
            call._call_callback_hooks(trainer, "setup", stage="fit")
            call._call_lightning_module_hook(trainer, "setup", stage="fit")
            call._call_configure_model(trainer)
            trainer.strategy.setup(trainer)
        if trainer.lr_scheduler_configs:
            raise TrainerError(
                f"configure_optimizers() of {type(self.module).__name__} returns a scheduler, which cannot "
                f"hold in a study: {_SCHEDULE}"
            )
        self.optimizers = list(trainer.strategy.optimizers)
        for hook in ("on_fit_start", "on_train_start"):
            call._call_callback_hooks(trainer, hook)
            call._call_lightning_module_hook(trainer, hook)
        self._detach(trainer)

    def _again(self) -> Any:
        """Return a ``Trainer`` for a state that was loaded."""
        with seeding.put_back(), _quiet():
            trainer: Any = self.make_trainer()
            self._connect(trainer)
            trainer.callbacks = self.callbacks
            trainer._callback_connector._attach_model_logging_functions()
            trainer.strategy.setup_environment()
            trainer.state.fn = TrainerFn.VALIDATING  # which makes no optimizers
            trainer.strategy.setup(trainer)
            trainer.state.fn = TrainerFn.FITTING
        trainer.strategy.optimizers = self.optimizers
        if self.scaling:
            trainer.precision_plugin.load_state_dict(self.scaling)
        for name, (owner, attribute) in _counters(trainer).items():
            setattr(owner, attribute, self.progress[name])
        return trainer

    def _connect(self, trainer: Any) -> None:
        trainer.loggers = []
        trainer.limit_val_batches = 0
        trainer.state.fn, trainer.state.status = TrainerFn.FITTING, TrainerStatus.RUNNING
        trainer.training = True
        trainer.strategy._lightning_module = self.module
        self._attach(trainer)
        trainer.strategy.connect(self.module)

    def _attach(self, trainer: Any) -> None:
        self.module.trainer = self.datamodule.trainer = trainer
        with seeding.put_back():
            batches = Batches(self.loader, self._usual_loader(), self.batches)
        connector = trainer._data_connector
        connector.attach_dataloaders(self.module, train_dataloaders=batches)
        connector._datahook_selector = _DataHookSelector(self.module, self.datamodule)
        trainer.datamodule = self.datamodule

    def _detach(self, trainer: Any) -> None:
        self.progress = _progress_of(trainer)
        self.scaling = trainer.precision_plugin.state_dict()
        self.module.trainer = self.datamodule.trainer = None

    @contextmanager
    def _attached(self) -> Iterator[Any]:
        if self._live.trainer is None:
            self._live.trainer = self._again()
        trainer = self._live.trainer
        self._attach(trainer)
        trainer._logger_connector.reset_results()
        trainer._logger_connector.reset_metrics()
        self.module.train()
        try:
            yield trainer
        finally:
            self._detach(trainer)

    def _usual_loader(self) -> Any:
        loader = self.datamodule.train_dataloader()
        if not hasattr(loader, "dataset") or getattr(loader, "batch_size", None) is None:
            raise TrainerError(
                f"train_dataloader() of {type(self.datamodule).__name__} returned {loader!r}; expected a "
                "DataLoader with a dataset and a batch size: Hippo takes both, and keeps an order of its own"
            )
        return loader


@contextmanager
def _quiet() -> Iterator[None]:
    """Have Lightning say nothing about devices, loggers, and itself."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.")
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _counters(trainer: Any) -> dict[str, tuple[Any, str]]:
    """Return where the loops count."""
    loop = trainer.fit_loop
    epoch = loop.epoch_loop
    return {
        "epochs": (loop, "epoch_progress"),
        "batches": (epoch, "batch_progress"),
        "schedulers": (epoch, "scheduler_progress"),
        "stepped": (epoch, "_batches_that_stepped"),
        "automatic": (epoch.automatic_optimization, "optim_progress"),
        "manual": (epoch.manual_optimization, "optim_step_progress"),
    }


def _progress_of(trainer: Any) -> dict[str, Any]:
    return {name: getattr(owner, attribute) for name, (owner, attribute) in _counters(trainer).items()}


def _check(trainer: Any) -> None:
    """Raise where a ``Trainer`` cannot be that of a trial."""
    if not isinstance(trainer, lightning.Trainer):
        raise TrainerError(f"make_trainer() returned {trainer!r}; expected a lightning.Trainer")
    if trainer.num_devices > 1 or trainer.num_nodes > 1:
        raise TrainerError(
            f"the Trainer has {trainer.num_devices} devices; expected one: a worker trains in one process"
        )
    check_held(trainer, _HELD, "the Trainer")


def _without_left_out(callbacks: Iterable[Any]) -> list[Any]:
    return [each for each in callbacks if not isinstance(each, _LEFT_OUT)]


def _check_callbacks(trainer: Any) -> None:
    for callback in trainer.callbacks:
        for kind, why in _REFUSED.items():
            if isinstance(callback, kind):
                raise TrainerError(f"a callback {kind.__name__} cannot hold in a study: {why}")
