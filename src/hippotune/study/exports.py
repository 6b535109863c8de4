"""Trained models as files for other programs, which need neither the trainer's code nor Hippo to read them.

A name that ends in ``.safetensors`` gives the models' tensors only. Any other name gives a file for
``torch.load(path, weights_only=True)``. A file appears by a rename, after it was written and read back:
under its name there is a whole export or what was there before.

At the end of a tuning the best result is exported below the home; a study has one such export, the newest.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.durable import file_name, replacing
from hippotune.errors import HippoError, InvalidInput, MissingExtra, NothingToExport
from hippotune.sequences.config import Config

if TYPE_CHECKING:
    from hippotune.trainers.export import PlainState

_SAFETENSORS = ".safetensors"
_AUTOMATIC = re.compile(r"trial-\d+-step-\d+\.pt")
_MOST_CHARACTERS = 150
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an exported model comes from."""

    study: str
    config: Config
    step: int
    metrics: Mapping[str, float]

    def described(self) -> dict[str, Any]:
        """Return it as plain data."""
        from hippotune import __version__

        return {
            "config": self.config.to_json(),
            "step": self.step,
            "metrics": {name: float(value) for name, value in self.metrics.items()},
            "study": self.study,
            "hippotune": __version__,
        }


def export(trainer: object, origin: Origin, path: str | Path) -> Path:
    """Write what a trained trainer holds to a file, and return its path.

    Raises `NothingToExport` for a trainer without modules and without ``state_dict()``.
    """
    from hippotune.trainers.export import plain_state

    return write(plain_state(trainer), origin, path)


def write(state: PlainState, origin: Origin, path: str | Path) -> Path:
    """Write what a trainer held to a file, and return its path."""
    target = Path(path)
    if target.is_dir() or not target.absolute().parent.is_dir():
        what = "is a folder" if target.is_dir() else "is in a folder that does not exist"
        raise InvalidInput(f"path is {str(target)!r}, which {what}; expected the name of a file to write")
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("exporting a model needs PyTorch: pip install 'hippotune[torch]'")
    how = _write_safetensors if target.suffix == _SAFETENSORS else _write_torch
    try:
        with replacing(target) as temporary:
            how(state, origin, temporary)
    except HippoError:
        raise
    except Exception as error:
        raise HippoError(f"cannot export to {target}: {type(error).__name__}: {error}") from error
    return target


def _write_torch(state: PlainState, origin: Origin, path: Path) -> None:
    import torch

    content = {"modules": state.modules, "optimizers": state.optimizers, **origin.described()}
    if state.state is not None:
        content["state"] = state.state
    content["omitted"] = list(state.omitted)
    torch.save(content, path)
    torch.load(path, weights_only=True, mmap=True, map_location="cpu")  # raises where others could not


def _write_safetensors(state: PlainState, origin: Origin, path: Path) -> None:
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise MissingExtra(
            f"writing {_SAFETENSORS} files needs safetensors: pip install 'hippotune[torch]'"
        ) from error
    from torch import Tensor

    if not state.modules:
        raise HippoError(
            f"there is no torch module to write as {_SAFETENSORS}; a name that ends in .pt takes what "
            "state_dict() returns"
        )
    tensors: dict[str, Tensor] = {}
    places: set[int] = set()
    for prefix, module in state.modules.items():
        for name, tensor in module.items():
            if isinstance(tensor, Tensor):
                # The format knows no memory that tensors share: each is written in full.
                whole = tensor.clone() if tensor.data_ptr() in places else tensor
                places.add(tensor.data_ptr())
                tensors[f"{prefix}.{name}" if len(state.modules) > 1 else name] = whole.contiguous()
    metadata = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in origin.described().items()
    }
    save_file(tensors, path, {"format": "pt", **metadata})


# Automatic exports.


def export_best(home: Path, number: int, origin: Origin, load: Callable[[], object]) -> Path | None:
    """Export a study's best result below its home, in place of its earlier one; None if there is nothing to.

    `load` returns the trained trainer, for which `prepare` need not run. What it does to the random
    generators and torch's settings of this process is undone.
    """
    if importlib.util.find_spec("torch") is None:
        return None
    from hippotune.trainers.export import plain_state

    folder = export_folder(home, origin.study)
    target = folder / f"trial-{number}-step-{origin.step}.pt"
    with _one_at_a_time, _process_unchanged():
        try:
            state = plain_state(load())
        except NothingToExport:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        write(state, origin, target)
    for other in _exports_in(folder):
        if other != target:
            other.unlink(missing_ok=True)
    return target


def find_export(home: Path, study: str, since: float) -> Path | None:
    """Return the automatic export of a study that was made after a moment, in seconds since the epoch."""
    made = [path for path in _exports_in(export_folder(home, study)) if path.stat().st_mtime >= since]
    return max(made, key=lambda path: path.stat().st_mtime, default=None)


def export_folder(home: Path, study: str) -> Path:
    """Return the folder of a study's automatic exports; two studies never have the same."""
    return home / "exports" / file_name(study, _MOST_CHARACTERS)


def _exports_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if _AUTOMATIC.fullmatch(path.name)]


@contextmanager
def _process_unchanged() -> Iterator[None]:
    """Put random generators and torch's choice of algorithms back in the end."""
    from hippotune.trainers import seeding

    torch = sys.modules.get("torch")
    if torch is None:
        with seeding.put_back():
            yield
        return
    algorithms = torch.get_deterministic_debug_mode()
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    try:
        with seeding.put_back():
            yield
    finally:
        torch.set_deterministic_debug_mode(algorithms)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
