"""A trainer on scikit-learn that tests train, kill and compare."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.linear_model import SGDClassifier

import hippotune as hippo
from adapters.common import RATES, X, Y, bits, kill_once
from hippotune import Piecewise

SPACE = {"eta0": RATES, "bs": [16, Piecewise([16, 48], [3])]}


class Linear(hippo.adapters.SklearnTrainer):
    def prepare(self) -> None:
        self.data = X[:200], Y[:200]

    def build(self) -> None:
        self.estimator = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1)

    def train(self) -> None:
        kill_once(self, self.order.epoch)
        super().train()

    def evaluate(self) -> Mapping[str, float]:
        found = self.estimator.coef_ if self.fitted else np.zeros(6)
        return {"loss": float(abs(found).sum()), "bits": bits(found)}
