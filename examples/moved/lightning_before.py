"""An image classifier of Lightning: a module, a datamodule, and a Trainer that fits."""

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


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
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=16)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


trainer = L.Trainer(
    max_epochs=16,
    gradient_clip_val=1.0,
    callbacks=[ModelCheckpoint(monitor="val_acc", mode="max")],
)
trainer.fit(Classifier(), datamodule=DigitsData())
