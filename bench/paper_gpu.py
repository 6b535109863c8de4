"""The ResNet56 studies of the Hippo paper for real, on the GPUs of a machine: trial by trial, and shared.

NOT YET RUN: no figure of the documentation comes from here. The program needs GPUs, CIFAR-10 as its authors
distribute it (the folder cifar-10-batches-py), and time: at a minute an epoch, some 230 GPU-hours trial by
trial for each tuner. The space is one draw of `paper_spaces.py` at the published merge rate; tuners, rungs
and the last 100 epochs are those of paper.py. It prints GPU-hours and hours to the end of both ways, and
their ratios, beside which the published ones are those against trial by trial: 4.84 and 2.24 (SHA), 2.70 and
1.84 (ASHA).

    python bench/paper_gpu.py --data cifar-10-batches-py --workers 8 [--tuner asha] [--draw 3]
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import hippotune as hippo
from harness import Figures, run
from hippotune.tuners import TrialGroup, Trials
from paper import FURTHER, STUDIES


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.stride, self.more = stride, outputs - inputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = functional.relu(self.norms[0](self.first(images)))
        found = self.norms[1](self.second(found))
        around = images[:, :, :: self.stride, :: self.stride]
        around = functional.pad(around, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return functional.relu(found + around)


class ResNet56(hippo.TorchTrainer):  # type: ignore[misc]
    """ResNet56 on CIFAR-10; a step is an epoch."""

    def prepare(self) -> None:
        folder = Path(self.settings["data"])
        training = [_read(folder / f"data_batch_{number}") for number in range(1, 6)]
        images, labels = (torch.cat(parts) for parts in zip(*training, strict=True))
        self.training = TensorDataset(images, labels)
        self.validation = _read(folder / "test_batch")

    def build(self) -> None:
        widths = [16] * 9 + [32] * 9 + [64] * 9
        blocks = [Block(before, after) for before, after in zip([16, *widths], widths, strict=False)]
        begin = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
        self.model = nn.Sequential(*begin, *blocks, *end).to(self.device)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = hippo.Loader(self.training, 128, seed=self.seed)

    def setup(self, hp: Mapping[str, Any]) -> None:
        kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "momentum-sgd": torch.optim.SGD}
        if "optimizer" in hp:  # at the start of a trial, and never again
            self.optimizer = kinds[hp["optimizer"]](self.model.parameters(), lr=0.1)
        super().setup({name: value for name, value in hp.items() if name != "optimizer"})

    def train(self) -> None:
        self.model.train()
        for images, labels in self.loader.batches(len(self.training) // self.loader.batch_size):
            images, labels = images.to(self.device), labels.to(self.device)
            padded = functional.pad(images, (4, 4, 4, 4))
            top, left = (int(torch.randint(9, ())) for _ in range(2))
            images = padded[:, :, top : top + 32, left : left + 32]
            if torch.rand(()) < 0.5:
                images = images.flip(3)
            self.optimizer.zero_grad()
            functional.cross_entropy(self.model(images), labels).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def evaluate(self) -> dict[str, float]:
        images, labels = self.validation
        found = [self.model(part.to(self.device)).argmax(1).cpu() for part in images.split(1000)]
        return {"accuracy": (torch.cat(found) == labels).float().mean().item()}


def _read(file: Path) -> tuple[torch.Tensor, torch.Tensor]:
    with file.open("rb") as opened:
        batch = pickle.load(opened, encoding="bytes")
    images = np.asarray(batch[b"data"], dtype=np.float32).reshape(-1, 3, 32, 32) / 255 - 0.47
    return torch.from_numpy(images * 4), torch.tensor(batch[b"labels"])


class Further(hippo.tuners.Tuner):
    """A tuner, and then the best of its trials 100 epochs further."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.metric, self.mode = inner, inner.metric, inner.mode

    async def run(self, trials: Trials) -> None:
        heard = _Heard(trials)
        await self._inner.run(heard)
        if heard.best is not None:
            await trials.all(trials.submit(TrialGroup.of([heard.best.trial], heard.best.step + FURTHER)))


class _Heard:
    """Passes everything on, and remembers the best result."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.best: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trials, name)

    async def next(self) -> Any:
        return self._note(await self._trials.next())

    async def all(self, trials: Any) -> list[Any]:
        return [self._note(result) for result in await self._trials.all(trials)]

    def _note(self, result: Any) -> Any:
        if result.metrics and (
            self.best is None or result.metrics["accuracy"] > self.best.metrics["accuracy"]
        ):
            self.best = result
        return result


def measure(options: argparse.Namespace) -> Figures:
    study = STUDIES[f"resnet56_{options.tuner}"]
    space = study.space.draw(options.draw)
    figures: dict[str, float] = {"merge_rate": space.merge_rate(study.space.steps)}
    works = {}
    for way in ("shared", "alone"):
        with tempfile.TemporaryDirectory(dir=options.scratch) as home:
            executor = hippo.Local(workers=options.workers)
            settings = {"data": str(options.data.absolute())}
            with hippo.Study(
                way, ResNet56, home=home, executor=executor, settings=settings, share=way == "shared"
            ) as opened:
                works[way] = opened.tune(Further(study.tuner(space))).work
        figures[f"gpu_hours_{way}"] = works[way].worker_seconds / 3600
        figures[f"hours_{way}"] = works[way].wall_seconds / 3600
    figures["gpu_hour_ratio"] = figures["gpu_hours_alone"] / figures["gpu_hours_shared"]
    figures["hour_ratio"] = figures["hours_alone"] / figures["hours_shared"]
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--workers", type=int, default=max(torch.cuda.device_count(), 1), help="one a GPU")
    parser.add_argument("--tuner", choices=("sha", "asha"), default="sha")
    parser.add_argument("--draw", type=int, default=0, help="which draw of the space (0)")
    parser.add_argument("--scratch", type=Path, help="where checkpoints are kept meanwhile")


if __name__ == "__main__":
    run(__doc__, measure, [], arguments)
