"""A trainer on LightGBM that tests train, kill and compare."""

from __future__ import annotations

from collections.abc import Mapping

import lightgbm as lgb
import numpy as np

import hippotune as hippo
from adapters.common import RATES, X, Y, bits, kill_once
from hippotune import Piecewise

ROUNDS = 2
SPACE = {"learning_rate": RATES, "bagging_fraction": [0.8, Piecewise([0.8, 0.6], [3])]}


class LightGBM(hippo.adapters.LightGBMTrainer):
    params = {"objective": "binary", "num_leaves": 5, "bagging_freq": 1, "feature_fraction": 0.5}
    rounds = ROUNDS

    def prepare(self) -> None:
        self.data = lgb.Dataset(X[:200], Y[:200], free_raw_data=False)

    def train(self) -> None:
        kill_once(self, self.round // ROUNDS)
        super().train()

    def evaluate(self) -> Mapping[str, float]:
        found = np.asarray(self.booster.predict(X[200:], raw_score=True))
        scores = found if found.ndim == 1 else found[:, 1] - found[:, 0]
        loss = float(np.mean(np.logaddexp(0, scores) - Y[200:] * scores))
        return {"loss": loss, "bits": bits(found)}
