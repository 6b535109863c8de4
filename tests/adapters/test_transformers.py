"""Transformers: shared, killed and resumed, a trial is what ``Trainer.train()`` makes of it in one go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler

import hippotune as hippo
from adapters.common import (
    SEED,
    STEPS,
    bits,
    cut_after_every_step,
    found_in,
    state_of,
    straight_through,
    tuned_through_a_kill,
)
from adapters.on_transformers import GPT, SPACE, UPDATES, collate, make_model, make_texts
from hippotune import Config
from hippotune.errors import TrainerError
from hippotune.trainers import seeding
from hippotune.trainers.session import Session

ACCUMULATED = 2


class Ordered(transformers.Trainer):  # type: ignore[misc]
    """A ``Trainer`` with Hippo's order put in."""

    order: Iterator[list[int]]

    def get_train_dataloader(self) -> DataLoader[Any]:
        order, generator = list(self.order), torch.Generator()
        return DataLoader(make_texts(), batch_sampler=order, collate_fn=collate, generator=generator)


class Values(transformers.TrainerCallback):  # type: ignore[misc]
    """Hippo's values put in, before every update."""

    def __init__(self, config: Config, updates: int) -> None:
        self.config, self.updates = config, updates

    def on_step_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.config.values(state.global_step // self.updates)["lr"]


def alone(config: Config, steps: int = STEPS, updates: int | None = UPDATES, **options: Any) -> Any:
    """Return the model that one call of ``train()`` comes to."""
    whole = options.get("dataloader_drop_last", False)
    loader = hippo.Loader(range(30), 4, seed=SEED, drop_last=whole, collate_fn=list)
    order: list[list[int]] = []
    for step in range(steps):
        loader.batch_size = config.values(step)["bs"]
        order += loader if updates is None else loader.batches(updates * ACCUMULATED)
    per_step = -(-len(order) // ACCUMULATED // steps) if updates is None else updates
    seeding.seed_all(SEED)
    model = make_model()
    with seeding.put_back():
        args = GPT().arguments(
            per_device_train_batch_size=4,
            gradient_accumulation_steps=ACCUMULATED,
            max_grad_norm=0.5,
            weight_decay=0.1,
            num_train_epochs=1,
            **options,
        )
        trainer = Ordered(model, args, callbacks=[Values(config, per_step)])
    trainer.order = iter(order)
    trainer.train()
    return model


def weights(model: Any) -> float:
    return bits(torch.cat([part.detach().flatten() for part in model.parameters()]).numpy())


def test_a_study_through_a_kill_has_the_bits_of_train_alone(tmp_path: Path) -> None:
    study, report = tuned_through_a_kill(GPT, SPACE, tmp_path)
    study.close()
    found = found_in(report)
    assert found == {config: weights(alone(config)) for config in found}
    assert len(set(found.values())) == 8
    assert set(found_in(report, "seen").values()) == {sum(range(1, STEPS * UPDATES + 1))}
    logged = report.logged(0)
    assert [step for step, _ in logged["train_loss"]] == list(range(1, STEPS + 1))
    assert logged["grad_norm"]


@pytest.mark.parametrize(
    ("updates", "steps", "options"),
    [
        (None, 2, {}),
        (None, 1, {"dataloader_drop_last": True}),  # seven batches: the last update has one
        (1, 2, {"bf16": True, "optim": "adafactor"}),
    ],
)
def test_an_epoch_other_precision_and_other_optimizers_are_those_of_train(
    updates: int | None, steps: int, options: dict[str, Any]
) -> None:
    class Other(GPT):
        def arguments(self, **given: Any) -> transformers.TrainingArguments:
            return super().arguments(**given, **options)

    Other.updates = updates
    config = Config({"lr": 0.01, "bs": 4})  # eight batches in an epoch
    cut = cut_after_every_step(Other, config, steps)
    assert weights(cut.trainer.model) == weights(alone(config, steps, updates, **options))
    assert state_of(cut) == state_of(straight_through(Other, config, steps))


def test_weight_decay_is_set_where_the_trainer_decays_alone() -> None:
    session = Session(GPT, {}, SEED)
    session.start(Config({"weight_decay": 0.3, "max_grad_norm": 2.0}), 0, None, False)
    groups = session.trainer.optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    session.advance()
    assert session.trainer._trainer().args.max_grad_norm == 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"lr_scheduler_type": "cosine"},
            "lr_scheduler_type='cosine'.*a schedule is a hyper-parameter",
        ),
        ({"warmup_steps": 3}, "warmup_steps=3"),
        ({"eval_strategy": "epoch"}, "eval_strategy='epoch'.*as far as a tuner asks"),
        ({"save_strategy": "epoch"}, "save_strategy='epoch'.*Hippo keeps"),
        ({"load_best_model_at_end": True, "eval_strategy": "no"}, "load_best_model_at_end"),
        ({"dataloader_num_workers": 2}, "dataloader_num_workers=2"),
        ({"max_steps": 500}, "max_steps=500.*as far as a tuner asks"),
        ({"num_train_epochs": 10}, "num_train_epochs=10.*leave it out"),
        ({"seed": 7}, r"seed=7.*Study\(seed=...\)"),
        ({"neftune_noise_alpha": 5.0}, r"neftune_noise_alpha=5.0.*in build\(\)"),
        ({"gradient_checkpointing": True}, "gradient_checkpointing=True.*gradient_checkpointing_enable"),
    ],
)
def test_an_argument_that_cannot_hold_is_named(options: dict[str, Any], message: str) -> None:
    class Wrong(GPT):
        def make_trainer(self) -> transformers.Trainer:
            trainer = super().make_trainer()
            for name, value in options.items():
                setattr(trainer.args, name, value)
            return trainer

    with pytest.raises(TrainerError, match=message):
        Session(Wrong, {}, SEED).start(Config({"lr": 0.1}), 0, None, False)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
def test_checkpointing_is_named_as_it_was_written() -> None:
    class Wrong(GPT):
        def make_trainer(self) -> transformers.Trainer:
            args = self.arguments(gradient_checkpointing=True)
            return transformers.Trainer(self.model, args, train_dataset=self.texts)

    with pytest.raises(TrainerError, match=r"gradient_checkpointing.*would do that to the model"):
        Session(Wrong, {}, SEED).start(Config({"lr": 0.1}), 0, None, False)


@pytest.mark.parametrize(
    "sampler", [WeightedRandomSampler([1.0] * 30, 30), RandomSampler(range(30), num_samples=10)]
)
def test_a_sampler_of_ones_own_is_named(sampler: Any) -> None:
    class Sampling(transformers.Trainer):  # type: ignore[misc]
        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return sampler

    class Wrong(GPT):
        def make_trainer(self) -> transformers.Trainer:
            return Sampling(self.model, self.arguments(), data_collator=collate, train_dataset=self.texts)

    message = rf"the training loader of Sampling has a \w*{type(sampler).__name__} of its own.*Hippo's order"
    with pytest.raises(TrainerError, match=message):
        Session(Wrong, {}, SEED).start(Config({"lr": 0.1}), 0, None, False)


def test_a_callback_cannot_stop_a_trial() -> None:
    class Stop(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = True

    class Stopping(GPT):
        def make_trainer(self) -> transformers.Trainer:
            trainer = super().make_trainer()
            trainer.add_callback(self.callback())
            return trainer

        callback = Stop

    session = Session(Stopping, {}, SEED)
    session.start(Config({"lr": 0.1}), 0, None, False)
    with pytest.raises(TrainerError, match="asked to stop"):
        session.advance()
    Stopping.callback = transformers.EarlyStoppingCallback
    with pytest.raises(TrainerError, match="EarlyStoppingCallback"):
        Session(Stopping, {}, SEED).start(Config({"lr": 0.1}), 0, None, False)
