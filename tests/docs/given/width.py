import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from hippotune.trainers.session import Session


class Digits(hippo.TorchTrainer):
    def build(self):
        data = TensorDataset(torch.linspace(-1, 1, 40).reshape(20, 2), torch.arange(20) % 2)
        self.loader = hippo.Loader(data, 4, seed=self.seed)
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def evaluate(self):
        return {"weight": self.model.weight.sum().item()}


# The page.
session = Session(Methods1, {}, 0)
session.start(hippo.Config({"lr": 0.1}), 0, None, warm=False)
before = session.evaluate()
session.advance()
assert session.evaluate() != before
