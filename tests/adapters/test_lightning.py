"""Lightning: shared, killed and resumed, a trial is what ``Trainer.fit()`` makes of it in one go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, WeightedRandomSampler

import hippotune as hippo
from adapters.common import (
    SEED,
    STEPS,
    cut_after_every_step,
    found_in,
    state_of,
    straight_through,
    tuned_through_a_kill,
)
from adapters.on_lightning import OPTIONS, SPACE, Average, Data, Lit, Net, bits_of
from hippotune import Config
from hippotune.errors import TrainerError
from hippotune.trainers import seeding
from hippotune.trainers.session import Session


class Ordered(Data):
    """The data, with Hippo's order put in: a loader for every epoch."""

    def __init__(self, order: list[list[list[int]]]) -> None:
        super().__init__()
        self.order = iter(order)

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.training, batch_sampler=next(self.order), generator=torch.Generator())


class Values(L.Callback):
    """Hippo's values put in, before every epoch."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.config.values(trainer.current_epoch)["lr"]


def batches_of(config: Config, steps: int, count: int | None) -> Iterator[list[list[int]]]:
    loader = hippo.Loader(range(100), 16, seed=SEED, collate_fn=list)
    for step in range(steps):
        loader.batch_size = config.values(step)["bs"]
        yield list(loader if count is None else loader.batches(count))


def alone(
    config: Config, steps: int = STEPS, count: int | None = None, net: type[Net] = Net, **options: Any
) -> tuple[Net, Average]:
    """Return the module, and its callback, that one call of ``fit()`` comes to."""
    seeding.seed_all(SEED)
    module, average = net(), Average()
    with seeding.put_back():
        trainer = Lit().lightning_trainer(
            max_epochs=steps,
            callbacks=[average, Values(config)],
            limit_val_batches=0,
            reload_dataloaders_every_n_epochs=1,
            **options,
        )
    trainer.fit(module, datamodule=Ordered(list(batches_of(config, steps, count))))
    return module, average


def test_a_study_through_a_kill_has_the_bits_of_fit_alone(tmp_path: Path) -> None:
    study, report = tuned_through_a_kill(Lit, SPACE, tmp_path)
    study.close()
    found = found_in(report)
    assert found == {config: bits_of(*alone(config, **OPTIONS)) for config in found}
    assert len(set(found.values())) == 8
    assert [step for step, _ in report.logged(0)["train_loss"]] == list(range(1, STEPS + 1))


class Manual(Net):
    """Two optimizers, stepped by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))
        for optimizer in self.optimizers():
            optimizer.step()
        self.places.append((self.current_epoch, self.global_step))

    def configure_optimizers(self) -> Any:
        first, *_, last = self.layers
        return [torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.Adam(last.parameters(), lr=0.1)]


@pytest.mark.parametrize(
    ("net", "count", "options"),
    [
        (Net, 3, {"gradient_clip_val": 0.1, "gradient_clip_algorithm": "value"}),
        (Net, None, {"precision": "bf16-mixed", "accumulate_grad_batches": 3}),
        (Manual, 5, {}),
    ],
)
def test_other_steps_precision_and_manual_optimization_are_those_of_fit(
    net: type[Net], count: int | None, options: dict[str, Any]
) -> None:
    class Other(Lit):
        batches = count

        def build(self) -> None:
            self.module = net()

        def make_trainer(self) -> L.Trainer:
            return self.lightning_trainer(callbacks=[Average()], **options)

    config = Config({"lr": hippo.Exponential(0.3, 0.8), "bs": hippo.Piecewise([16, 20], [2])})
    session = cut_after_every_step(Other, config, 3)
    assert state_of(session) == state_of(straight_through(Other, config, 3))
    cut: Any = session.trainer
    module, average = alone(config, 3, count, net, **options)
    assert bits_of(cut.module, cut.callbacks[0]) == bits_of(module, average)
    assert cut.module.places == module.places  # epochs and steps are counted as in one run


class Halves(Net):
    """Says in which precision it is evaluated, and on how much."""

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.log("half", float(self.layers(batch[0]).dtype == torch.bfloat16))
        self.log("batches", 1.0, reduce_fx="sum")


class TwoSets(Data):
    def val_dataloader(self) -> Any:
        return [super().val_dataloader(), super().val_dataloader()]


def test_it_is_evaluated_as_fit_would_evaluate_it_and_without_callbacks_for_loggers() -> None:
    class Evaluated(Lit):
        def prepare(self) -> None:
            self.datamodule = self.set_up(TwoSets())

        def build(self) -> None:
            self.module = Halves()

        def make_trainer(self) -> L.Trainer:
            monitor = L.pytorch.callbacks.LearningRateMonitor()
            return self.lightning_trainer(precision="bf16-mixed", limit_val_batches=2, callbacks=[monitor])

        def evaluate(self) -> dict[str, float]:
            return self.metrics()

    session = cut_after_every_step(Evaluated, Config({"lr": 0.1, "bs": 16}), 1)
    assert session.evaluate() == {
        f"{name}/dataloader_idx_{number}": value
        for number in range(2)
        for name, value in (("half", 1.0), ("batches", 2.0))
    }


@pytest.mark.parametrize(
    "of_people", [L.pytorch.callbacks.ModelCheckpoint(), L.pytorch.callbacks.TQDMProgressBar()]
)
def test_checkpoint_callbacks_and_progress_bars_are_left_out(of_people: L.Callback) -> None:
    class Several(Lit):
        def make_trainer(self) -> L.Trainer:
            return self.lightning_trainer(callbacks=[of_people, Average()])

    class One(Lit):
        def make_trainer(self) -> L.Trainer:
            return self.lightning_trainer(callbacks=of_people)

    config = Config({"lr": 0.1, "bs": 16})
    several: Any = cut_after_every_step(Several, config, 2).trainer
    assert [type(each) for each in several.callbacks] == [Average]
    session = Session(One, {}, SEED)
    session.start(config, 0, None, False)
    session.advance()
    one: Any = session.trainer
    assert one.callbacks == []


class Noticing(L.Callback):
    validations = 0

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        Noticing.validations += 1


class WithCallbacks(Net):
    def configure_callbacks(self) -> list[L.Callback]:
        return [Noticing()]


def test_evaluating_calls_no_hooks_of_callbacks() -> None:
    class Evaluated(Lit):
        def build(self) -> None:
            self.module = WithCallbacks()

    session = Session(Evaluated, {}, SEED)
    session.start(Config({"lr": 0.1, "bs": 16}), 0, None, False)
    trainer: Any = session.trainer
    trainer.metrics()
    assert Noticing in [type(each) for each in trainer.callbacks]
    assert Noticing.validations == 0


class Scheduled(Net):
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


class Stopping(L.Callback):
    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        trainer.should_stop = True


@pytest.mark.parametrize(
    ("net", "options", "message"),
    [
        (Scheduled, {}, "returns a scheduler.*a schedule is a hyper-parameter"),
        (Net, {"callbacks": [L.pytorch.callbacks.EarlyStopping("loss")]}, "EarlyStopping cannot hold"),
        (Net, {"max_steps": 10}, "max_steps=10.*as far as a tuner asks"),
        (Net, {"callbacks": [Stopping()]}, "asked to stop"),
        (Net, {"max_epochs": 5}, "max_epochs=5.*leave it out"),
        (Net, {"min_epochs": 2}, "min_epochs=2.*as far as a tuner asks"),
        (Net, {"min_steps": 2}, "min_steps=2.*as far as a tuner asks"),
        (Net, {"val_check_interval": 0.5}, r"val_check_interval=0.5.*evaluated by evaluate\(\)"),
        (Net, {"check_val_every_n_epoch": 2}, r"check_val_every_n_epoch=2.*evaluated by evaluate\(\)"),
        (Net, {"limit_train_batches": 4}, "limit_train_batches=4.*batches = ..."),
        (Net, {"reload_dataloaders_every_n_epochs": 1}, "reload_dataloaders_every_n_epochs=1"),
        (
            Net,
            {"callbacks": [L.pytorch.callbacks.StochasticWeightAveraging(0.1)]},
            "StochasticWeightAveraging cannot hold.*a schedule of its own",
        ),
        (torch.nn.Identity, {}, r"self.module of Wrong is no LightningModule .*; make one in build\(\)"),
    ],
)
def test_what_cannot_hold_is_named(net: Any, options: dict[str, Any], message: str) -> None:
    class Wrong(Lit):
        def build(self) -> None:
            self.module = net()

        def make_trainer(self) -> L.Trainer:
            return self.lightning_trainer(**options)

    def begin() -> None:
        session = Session(Wrong, {}, SEED)
        session.start(Config({"lr": 0.1}), 0, None, False)
        session.advance()

    with pytest.raises(TrainerError, match=message):
        begin()


def test_a_sampler_of_ones_own_is_named() -> None:
    class Weighted(Data):
        def train_dataloader(self) -> DataLoader[Any]:
            return DataLoader(self.training, 16, sampler=WeightedRandomSampler([1.0] * 100, 100))

    class Wrong(Lit):
        def prepare(self) -> None:
            self.datamodule = self.set_up(Weighted())

    message = r"train_dataloader\(\) of Weighted has a WeightedRandomSampler of its own.*Hippo's order"
    with pytest.raises(TrainerError, match=message):
        Session(Wrong, {}, SEED).start(Config({"lr": 0.1}), 0, None, False)


def test_an_iterable_dataset_is_named() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(())

    class Streamed(Data):
        def train_dataloader(self) -> DataLoader[Any]:
            return DataLoader(Stream(), 16)

    class Wrong(Lit):
        def prepare(self) -> None:
            self.datamodule = self.set_up(Streamed())

    message = (
        r"train_dataloader\(\) of Streamed has an IterableDataset, Stream; expected .* samples by number"
    )
    with pytest.raises(TrainerError, match=message):
        Session(Wrong, {}, SEED).start(Config({"lr": 0.1}), 0, None, False)
