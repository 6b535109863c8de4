import torch
from torch import nn

import hippotune as hippo
import hippotune.study.opening
from hippotune.executors.local.executor import Local

hippo.Local = lambda workers: Local(workers=1)  # what takes time here is to start processes
hippotune.study.opening.ProofPolicy = lambda *_: None  # what is proved is tested elsewhere


class Digits(hippo.TorchTrainer):
    def build(self):
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        self.optimizer.zero_grad()
        self.model(torch.ones(4, 2)).square().mean().backward()
        self.optimizer.step()

    def evaluate(self):
        return {"val_acc": self.model(torch.ones(1, 2)).item()}


tuner = hippo.GridSearch({"lr": [0.1, hippo.MultiStep(0.1, [2], 0.5)]}, "val_acc", "max", max_steps=4)
model = nn.Linear(2, 1)

# The page.
assert report.work.steps_trained == 6
trained = report.best.load().model
assert all(torch.equal(a, b) for a, b in zip(model.parameters(), trained.parameters(), strict=True))
