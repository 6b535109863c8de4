"""A study to start from: put your own training in place of this.

hippo plan {file}    what would be shared, and what it would cost; trains nothing
hippo run {file}     train; after an interruption, the same command goes on
"""

import numpy as np

import hippotune as hippo
from hippotune import Constant, Cosine, Exponential, MultiStep, Warmup


class Regression(hippo.Trainer):
    def prepare(self):  # once in a process: data, whatever is read-only
        draws = np.random.default_rng(0)
        self.inputs = draws.normal(size=(400, 20))
        self.outputs = self.inputs @ draws.normal(size=20) + draws.normal(size=400)

    def build(self):  # at the start of every trial
        self.weights = np.zeros(20)
        self.draws = np.random.default_rng(self.seed)

    def setup(self, hp):  # hyper-parameters into force: all at the start, then what changes
        if "lr" in hp:
            self.lr = hp["lr"]

    def train(self):  # one step
        for batch in self.draws.permutation(300).reshape(-1, 30):
            error = self.inputs[batch] @ self.weights - self.outputs[batch]
            self.weights -= self.lr * self.inputs[batch].T @ error / len(batch)

    def evaluate(self):  # metrics; leaves the state as it is
        error = self.inputs[300:] @ self.weights - self.outputs[300:]
        return {"val_loss": float(np.mean(error**2))}


space = hippo.Grid(
    {"lr": [Constant(0.02), Exponential(0.02, 0.95), MultiStep(0.02, [20], 0.1), Warmup(5, Cosine(0.02, 35))]}
)
study = hippo.Study("{study}", Regression, executor=hippo.Local(workers=2))
tuner = hippo.SuccessiveHalving(space, metric="val_loss", mode="min", min_steps=10, max_steps=40, reduction=2)

if __name__ == "__main__":
    print(study.tune(tuner))
