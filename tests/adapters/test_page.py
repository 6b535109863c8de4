"""The trainers of docs/adapters.md train, as they are written there."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb  # noqa: F401
import lightning
import pytest
import torch
import transformers
import xgboost as xgb  # noqa: F401
from sklearn.metrics import root_mean_squared_error  # noqa: F401
from sklearn.neural_network import MLPClassifier  # noqa: F401
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hippotune as hippo
from adapters.common import X, Y
from docs.pages import python
from hippotune import Config, MultiStep
from hippotune.trainers.session import Session

x_train, y_train, x_val, y_val = X[:200], Y[:200], X[200:], Y[200:]
SKLEARN, XGBOOST, XGBOOST_ALONE, LIGHTGBM, LIGHTGBM_ALONE, TRANSFORMERS, LIGHTNING = python("adapters")


def read_blocks() -> tuple[Any, Any]:
    tokens = (torch.arange(32 * 8) * 7 % 13).reshape(32, 8)
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    return rows[:24], rows[24:]


class DigitsData(lightning.LightningDataModule):
    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.tensor(X).float(), torch.tensor(Y)), batch_size=50)

    val_dataloader = train_dataloader


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("val_loss", self.training_step(batch, 0))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def names_of(block: str) -> dict[str, Any]:
    """Run a block, with what the page takes for granted."""
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=13, n_positions=8)
    names = {**globals(), "config": config}
    # Callbacks are the reader's own, and a step on the page is longer than all data is here.
    text = block.replace("callbacks=[...]", "callbacks=[]").replace(
        "train_batch_size=8", "train_batch_size=2"
    )
    exec(text, names)
    return names


def steps(trainer: type[hippo.Trainer], config: Config, count: int = 1) -> tuple[Any, list[dict[str, float]]]:
    """Train some steps; return the trainer and the metrics before, between and after them."""
    session = Session(trainer, {}, 0)
    session.start(config, 0, None, warm=False)
    found = [dict(session.evaluate())]
    for _ in range(count):
        session.advance()
        found.append(dict(session.evaluate()))
    return session.trainer, found


@pytest.mark.parametrize(
    ("block", "name", "config", "metric"),
    [
        (SKLEARN, "Digits", {"learning_rate_init": 0.01, "bs": 20}, "val_acc"),
        (LIGHTGBM, "Diabetes", {"learning_rate": 0.1}, "val_rmse"),
        (TRANSFORMERS, "Bible", {"lr": 0.1}, "eval_loss"),
        (LIGHTNING, "Digits", {"lr": 0.1}, "val_loss"),
    ],
)
def test_the_trainer_of_the_page_learns(block: str, name: str, config: dict[str, float], metric: str) -> None:
    _, (before, after) = steps(names_of(block)[name], Config(config))
    assert before[metric] != after[metric]


@pytest.mark.parametrize(
    "more",
    [{}, {"tree_method": "approx"}, {"tree_method": "exact"}, {"booster": "dart", "rate_drop": 0.3}],
)
def test_the_same_run_in_xgboost_alone(more: dict[str, Any]) -> None:
    names = names_of(XGBOOST)
    trainer = names["Cancer"]
    trainer.params = {**trainer.params, "colsample_bytree": 0.5, **more}
    config = Config({"eta": MultiStep(0.3, [2], 0.5), "subsample": 0.7})
    cancer, metrics = steps(trainer, config, 3)
    assert metrics[0].keys() == {"val_logloss", "val_auc"}
    names |= {"config": config, "seed": cancer.seed, "params": trainer.params, "data": cancer.data}
    exec(XGBOOST_ALONE.replace("xgb.train", "alone = xgb.train").replace(" 200,", " 30,"), names)
    assert names["alone"].get_dump() == cancer.booster.get_dump()


@pytest.mark.parametrize("fraction", ["bagging_fraction", "subsample"])
def test_the_same_run_in_lightgbm_alone(fraction: str) -> None:
    names = names_of(LIGHTGBM)
    trainer = names["Diabetes"]
    trainer.params = {**trainer.params, "feature_fraction": 0.5, "verbosity": -1}
    config = Config({"learning_rate": MultiStep(0.3, [2], 0.5), fraction: MultiStep(0.7, [1], 0.8)})
    diabetes, _ = steps(trainer, config, 3)
    names |= {"config": config, "seed": diabetes.seed, "params": trainer.params, "data": diabetes.data}
    exec(LIGHTGBM_ALONE.replace("lgb.train", "alone = lgb.train").replace(" 100,", " 15,"), names)
    assert (names["alone"].predict(x_val) == diabetes.booster.predict(x_val)).all()
