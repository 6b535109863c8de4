"""A study to start from: put your data, model and loop in place of these.

hippo plan {file}    what would be shared, and what it would cost; trains nothing
hippo run {file}     train; after an interruption, the same command goes on
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from hippotune import Constant, Cosine, Exponential, MultiStep, Warmup


class Spirals(hippo.TorchTrainer):
    def prepare(self):  # once in a process: data, tokenizers, whatever is read-only
        angle = torch.linspace(0.5, 2 * torch.pi, 600)
        spiral = torch.stack([angle * angle.cos(), angle * angle.sin()], 1) / 6
        points, labels = torch.cat([spiral, -spiral]), torch.arange(1200) // 600
        held_out = torch.arange(1200) % 4 == 0
        self.validation = points[held_out], labels[held_out]
        self.training = TensorDataset(points[~held_out], labels[~held_out])

    def build(self):  # at the start of every trial: model, optimizer, loader
        self.loader = hippo.Loader(self.training, 64, seed=self.seed)
        self.model = nn.Sequential(
            nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    # lr, momentum, weight_decay and bs are put into force by TorchTrainer; read others with self.hp("name").

    def train(self):  # one step: here, an epoch
        for points, labels in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(points), labels)
            loss.backward()
            self.optimizer.step()
        self.log(train_loss=loss.item())

    def evaluate(self):  # metrics; leaves the state as it is
        points, labels = self.validation
        return {"val_acc": (self.model(points).argmax(1) == labels).float().mean().item()}


space = hippo.Grid(
    {
        "lr": [Constant(0.1), Exponential(0.1, 0.98), MultiStep(0.1, [30], 0.1), Warmup(5, Cosine(0.1, 55))],
        "bs": [64, MultiStep(64, [30], 2)],
    }
)
study = hippo.Study("{study}", Spirals, executor=hippo.Local(workers=2))
tuner = hippo.SuccessiveHalving(space, metric="val_acc", mode="max", min_steps=15, max_steps=60, reduction=2)

if __name__ == "__main__":
    print(study.tune(tuner))
