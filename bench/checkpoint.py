"""What a checkpoint costs: how long training waits for one, and how long loading one takes.

Three trainers: the demo's model; 30 MB in many small modules; 1 GB in a few large ones. Each has trained with
Adam, so that its optimizer holds state too, and holds data that `prepare` left, which is in no checkpoint.

Training waits for the snapshot only; the file is written behind it. The snapshot is compared with what
nothing can do without, measured in the same run: copying the tensors' bytes, and pickling the rest of the
same object with cloudpickle, tensors left out.

Loading checks every piece of the file against its digest while it is read. It is compared with ``torch.load``
of a file that ``torch.save`` made of the same modules and optimizers, and with one pass of SHA-256.

Bars, for each trainer: the snapshot takes at most 2 copies of the tensors' bytes plus 1.5 times pickling the
rest; loading at most 1.5 times ``torch.load`` plus one pass of the digest; no checkpoint holds prepared data.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import nn

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import Config
from hippotune.store.files import CheckpointFiles, checkpoint_name
from hippotune.trainers import seeding
from hippotune.trainers.session import Session

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from digits import Digits

NAMES = ("demo", "many", "large")
BARS = [
    *(Bar(f"{name}_snapshot_to_limit", "at most", 1.0) for name in NAMES),
    *(Bar(f"{name}_load_to_limit", "at most", 1.0) for name in NAMES),
    *(Bar(f"{name}_prepared_bytes_in_checkpoint", "at most", 0) for name in NAMES),
]


class Demo(Digits):
    """The demo, with Adam."""

    def build(self) -> None:
        super().build()
        self.optimizer = torch.optim.Adam(self.model.parameters())


class Stacked(hippo.TorchTrainer):
    """As many layers of a width as the settings say."""

    def prepare(self) -> None:
        self.data = torch.randn(50_000, 8)

    def build(self) -> None:
        width, layers = self.settings["width"], self.settings["layers"]
        self.first = nn.Linear(8, width)
        self.model = nn.Sequential(
            *(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers))
        )
        parameters = [*self.first.parameters(), *self.model.parameters()]
        self.optimizer = torch.optim.Adam(parameters, foreach=False)

    def train(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.first(self.data[:4])).square().mean().backward()
        self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": 0.0}


CASES: dict[str, tuple[type[hippo.Trainer], dict[str, Any], dict[str, Any]]] = {
    "demo": (Demo, {}, {"lr": 1e-3, "bs": 128}),
    "many": (Stacked, {"width": 40, "layers": 1_100}, {"lr": 1e-3}),
    "large": (Stacked, {"width": 3_700, "layers": 4}, {"lr": 1e-3}),
}


PREPARED = ("data", "training", "validation", "loader")  # what it left, and what refers to it


class WithoutTensors(cloudpickle.Pickler):
    """Pickles an object as cloudpickle does, and puts a number in place of every tensor."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, torch.Tensor):
            return None
        self.tensors.append(value)
        return len(self.tensors)


def pickled_without_tensors(trainer: Any) -> list[torch.Tensor]:
    """Pickle all but the tensors, as a limit; return the tensors."""
    pickler = WithoutTensors(io.BytesIO())
    rest = {name: value for name, value in vars(trainer).items() if name not in PREPARED}
    pickler.dump((rest, seeding.capture()))
    return pickler.tensors


def storages(trainer: Any) -> list[torch.UntypedStorage]:
    """Return the memory of all tensors of the state, gradients included, each once."""
    found: dict[int, torch.UntypedStorage] = {}
    for tensor in pickled_without_tensors(trainer):
        for each in (tensor, tensor.grad):
            if each is not None:
                found[each.untyped_storage()._cdata] = each.untyped_storage()
    return list(found.values())


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def in_turns(repeats: int, **actions: Callable[[], object]) -> dict[str, float]:
    """Return the median time of each action; all take turns, so that a machine's moods hit them alike."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            times[name].append(seconds(action))
    return {name: statistics.median(values) for name, values in times.items()}


def of_case(name: str, repeats: int, folder: Path) -> Figures:
    trainer_class, settings, values = CASES[name]
    session, config = Session(trainer_class, settings, 0), Config(values)
    session.start(config, 0, None, False)
    for _ in range(3):
        session.advance()
    trainer: Any = session.trainer
    for _ in range(2):
        session.snapshot()  # the first two look for large data that never changes
    memory = storages(trainer)
    waits = in_turns(
        repeats,
        snapshot=session.snapshot,
        copy=lambda: [storage.clone() for storage in memory],
        rest=lambda: pickled_without_tensors(trainer),
    )
    files = CheckpointFiles(folder)
    checkpoint = files.save(checkpoint_name(0, 3), session.snapshot())
    path = files.verify(checkpoint)
    other = Session(trainer_class, settings, 0)
    other.prepare()
    plain = folder / "plain.pt"
    torch.save({key: value for key, value in vars(trainer).items() if key not in PREPARED}, plain)
    session.drop()
    trainer, memory = None, []  # what is measured next is not to find memory short
    content = path.read_bytes()
    loads = in_turns(
        repeats,
        load=lambda: started_from(files, checkpoint, other, config),
        torch_load=lambda: torch.load(plain, weights_only=False),
        digest=lambda: hashlib.sha256(content).digest(),
    )
    prepared = sum(value.numel() * value.element_size() for value in tensors_of_prepare(other.trainer))
    state = torch.load(path, weights_only=True)
    sizes = {tensor.numel() for tensor in state["memory"]["large"]}
    return {
        f"{name}_megabytes": os.path.getsize(path) / 1e6,
        f"{name}_prepared_megabytes": prepared / 1e6,
        f"{name}_prepared_bytes_in_checkpoint": prepared if prepared in sizes else 0,
        f"{name}_snapshot_ms": 1e3 * waits["snapshot"],
        f"{name}_copy_ms": 1e3 * waits["copy"],
        f"{name}_rest_ms": 1e3 * waits["rest"],
        f"{name}_snapshot_to_limit": waits["snapshot"] / (2 * waits["copy"] + 1.5 * waits["rest"]),
        f"{name}_load_ms": 1e3 * loads["load"],
        f"{name}_torch_load_ms": 1e3 * loads["torch_load"],
        f"{name}_digest_ms": 1e3 * loads["digest"],
        f"{name}_load_to_limit": loads["load"] / (1.5 * loads["torch_load"] + loads["digest"]),
    }


def tensors_of_prepare(trainer: Any) -> list[torch.Tensor]:
    dataset = getattr(trainer, "training", None)
    return [trainer.data] if dataset is None else [dataset.tensors[0]]


def started_from(files: CheckpointFiles, checkpoint: Any, session: Session, config: Config) -> None:
    with files.read(checkpoint) as file:
        session.start(config, 3, file, False)


def measure(options: argparse.Namespace) -> Figures:
    torch.set_num_threads(1)  # as for one of two workers on two cores
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            repeats = options.repeats if name != "large" else max(3, options.repeats // 10)
            figures.update(of_case(name, repeats, Path(folder) / name))
    return figures


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=50, help="times that everything is measured")


if __name__ == "__main__":
    run(__doc__, measure, BARS, add_options)
