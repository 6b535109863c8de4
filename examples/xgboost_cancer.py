"""Boosted trees on the 569 tumours of scikit-learn: 24 trials, in steps of ten rounds.

Trials differ in how the learning rate goes over the rounds, in the depth of trees and in the share of rows
and columns that a tree sees. A few seconds on one core.

    python examples/xgboost_cancer.py
"""

from __future__ import annotations

from collections.abc import Mapping

import xgboost as xgb
from sklearn.datasets import load_breast_cancer

import hippotune as hippo
from hippotune import Constant, Exponential, MultiStep, Piecewise


class Cancer(hippo.adapters.XGBoostTrainer):
    params = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "colsample_bytree": 0.8}
    rounds = 10

    def prepare(self) -> None:
        x, y = load_breast_cancer(return_X_y=True)
        self.data = xgb.DMatrix(x[:400], y[:400])
        self.validation = xgb.DMatrix(x[400:], y[400:])

    def evaluate(self) -> Mapping[str, float]:
        return self.scores(val=self.validation)  # val_logloss and val_auc


space = hippo.Grid(
    {
        "eta": [Constant(0.3), Constant(0.1), Exponential(0.3, 0.8), MultiStep(0.3, [8], 0.1)],
        "max_depth": [3, 6],
        "subsample": [1.0, 0.7, Piecewise([1.0, 0.7], [8])],
    }
)
study = hippo.Study("cancer", Cancer, home=".hippo", executor=hippo.Local(workers=1, threads=1))
tuner = hippo.SuccessiveHalving(
    space, metric="val_logloss", mode="min", min_steps=5, max_steps=20, reduction=2
)

if __name__ == "__main__":
    print(study.tune(tuner))
