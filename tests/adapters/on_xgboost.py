"""A trainer on XGBoost that tests train, kill and compare."""

from __future__ import annotations

from collections.abc import Mapping

import xgboost as xgb

import hippotune as hippo
from adapters.common import RATES, X, Y, bits, kill_once
from hippotune import Piecewise

ROUNDS = 2
SPACE = {"eta": RATES, "subsample": [0.8, Piecewise([0.8, 0.5], [3])]}


class XGBoost(hippo.adapters.XGBoostTrainer):
    params = {"objective": "binary:logistic", "colsample_bynode": 0.5, "max_depth": 3}
    rounds = ROUNDS

    def prepare(self) -> None:
        self.data = xgb.DMatrix(X[:200], Y[:200])
        self.validation = xgb.DMatrix(X[200:], Y[200:])

    def train(self) -> None:
        kill_once(self, self.round // ROUNDS)
        super().train()

    def evaluate(self) -> Mapping[str, float]:
        found = self.booster.predict(self.validation)
        return {"loss": self.scores(val=self.validation)["val_logloss"], "bits": bits(found)}
