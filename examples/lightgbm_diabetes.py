"""Gradient boosting on the 442 patients of scikit-learn: 16 trials, in steps of five rounds.

Trials differ in how the learning rate goes over the rounds, in the size of trees and in bagging. A few
seconds on one core.

    python examples/lightgbm_diabetes.py
"""

from __future__ import annotations

from collections.abc import Mapping

import lightgbm as lgb
from sklearn.datasets import load_diabetes
from sklearn.metrics import root_mean_squared_error

import hippotune as hippo
from hippotune import Constant, Exponential, MultiStep


class Diabetes(hippo.adapters.LightGBMTrainer):
    params = {"objective": "regression", "bagging_freq": 1, "min_data_in_leaf": 10}
    rounds = 5

    def prepare(self) -> None:
        x, y = load_diabetes(return_X_y=True)
        self.data = lgb.Dataset(x[:300], y[:300], free_raw_data=False)
        self.x, self.y = x[300:], y[300:]

    def evaluate(self) -> Mapping[str, float]:
        return {"val_rmse": root_mean_squared_error(self.y, self.booster.predict(self.x))}


space = hippo.Grid(
    {
        "learning_rate": [Constant(0.1), Constant(0.05), Exponential(0.1, 0.9), MultiStep(0.1, [6], 0.2)],
        "num_leaves": [7, 15],
        "bagging_fraction": [0.8, 0.5],
    }
)
study = hippo.Study("diabetes", Diabetes, home=".hippo", executor=hippo.Local(workers=1, threads=1))
tuner = hippo.SuccessiveHalving(space, metric="val_rmse", mode="min", min_steps=4, max_steps=16, reduction=2)

if __name__ == "__main__":
    print(study.tune(tuner))
