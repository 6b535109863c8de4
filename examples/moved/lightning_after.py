"""An image classifier of Lightning: a study of how its rate and batch size go."""

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hippotune as hippo


class DigitsData(L.LightningDataModule):
    def setup(self, stage):
        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        targets = torch.tensor(labels)
        self.training = TensorDataset(images[:1400], targets[:1400])
        self.validation = TensorDataset(images[1400:], targets[1400:])

    def train_dataloader(self):
        return DataLoader(self.training, batch_size=64, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.validation, batch_size=256)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(256, 10),
        )

    def forward(self, images):
        return self.net(images)

    def training_step(self, batch, batch_idx):
        images, targets = batch
        loss = nn.functional.cross_entropy(self(images), targets)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, targets = batch
        scores = self(images)
        self.log("val_loss", nn.functional.cross_entropy(scores, targets))
        self.log("val_acc", (scores.argmax(1) == targets).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


class Digits(hippo.adapters.LightningTrainer):
    def prepare(self):
        self.datamodule = self.set_up(DigitsData())

    def build(self):
        self.module = Classifier()

    def make_trainer(self):
        return self.lightning_trainer(gradient_clip_val=1.0)


space = {"lr": [hippo.Cosine(0.1, 16), hippo.MultiStep(0.1, [8], 0.1)], "bs": [64, 128]}
study = hippo.Study("lightning", Digits, executor=hippo.Local(workers=1, threads=1))
tuner = hippo.GridSearch(space, metric="val_acc", mode="max", max_steps=16)
