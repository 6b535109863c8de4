"""A network of scikit-learn on its 1,797 digits: 12 trials of 20 epochs, by ``partial_fit``.

Trials differ in how the learning rate, the batch size and the penalty go over the epochs. A few seconds on
one core.

    python examples/sklearn_digits.py
"""

from __future__ import annotations

from collections.abc import Mapping

from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

import hippotune as hippo
from hippotune import Constant, Exponential, MultiStep


class Digits(hippo.adapters.SklearnTrainer):
    def prepare(self) -> None:
        x, y = load_digits(return_X_y=True)
        self.data = x[:1400] / 16, y[:1400]
        self.validation = x[1400:] / 16, y[1400:]

    def build(self) -> None:
        self.estimator = MLPClassifier((32,), random_state=self.seed)

    def evaluate(self) -> Mapping[str, float]:
        if not self.fitted:  # there is nothing to predict with yet
            return {"val_acc": 0.1, "val_loss": float("inf")}
        x, y = self.validation
        return {
            "val_acc": self.estimator.score(x, y),
            "val_loss": log_loss(y, self.estimator.predict_proba(x)),
        }


space = hippo.Grid(
    {
        "learning_rate_init": [Constant(0.01), Exponential(0.01, 0.9), MultiStep(0.01, [10], 0.1)],
        "bs": [64, MultiStep(64, [5], 2)],
        "alpha": [1e-4, 1e-2],
    }
)
study = hippo.Study("sklearn-digits", Digits, home=".hippo", executor=hippo.Local(workers=1, threads=1))
tuner = hippo.SuccessiveHalving(space, metric="val_acc", mode="max", min_steps=5, max_steps=20, reduction=2)

if __name__ == "__main__":
    print(study.tune(tuner))
