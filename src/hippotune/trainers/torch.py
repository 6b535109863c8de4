"""Trainers on PyTorch: the user writes build, setup, train and evaluate; saving and loading are done here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from hippotune.errors import InvalidInput, MissingExtra, TrainerError

try:
    import torch
except ImportError as error:
    raise MissingExtra("TorchTrainer needs PyTorch: pip install 'hippotune[torch]'") from error

from torch import Tensor, distributed
from torch.optim import Optimizer

from hippotune.trainers import packing, randomness
from hippotune.trainers.attributes import Attributes
from hippotune.trainers.base import Trainer, UserCall
from hippotune.trainers.data import Loader
from hippotune.trainers.draws import PartOfBatch
from hippotune.trainers.gradients import averaged
from hippotune.trainers.randomness import RandomState
from hippotune.trainers.ranks import present

_FIXED = frozenset({"settings", "seed", "device", "_attributes"})
_BATCH_SIZE = ("batch_size", "bs")

Items = TypeVar("Items")
Amount = TypeVar("Amount", int, float, Tensor)


class _Reading:
    """An attribute that is read from a function. A trainer may have another of the same name instead."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read

    def __get__(self, instance: object, owner: type) -> int:
        return self._read()


class TorchTrainer(Trainer):
    """A trainer whose attributes are its state.

    Everything on ``self`` with ``state_dict()`` and ``load_state_dict()`` is saved and loaded: modules,
    optimizers, `hippo.Loader`, gradient scalers, averaged models. So are numbers, strings, tensors, arrays,
    random generators, and lists, tuples, dicts and sets of these, except large ones that `build` made and
    training leaves alone. Other objects (datasets, tokenizers, functions) have to stay as `build` and `setup`
    make them. Gradients are not kept between steps.

    `evaluate` is called with all modules in evaluation mode and without gradients. Whatever it changes on
    ``self`` is put back afterwards.

    Settings
    --------
    device
        Where to train, like "cuda:1"; by default CUDA where there is any, then MPS, then the CPU.
    deterministic
        Whether to use deterministic algorithms only (True, the default). Where torch has none for an
        operation it warns and goes on; then results are not the same bit for bit.

    Attributes
    ----------
    device : torch.device
        Where to put the model and the batches.
    width : int
        How many workers train this step together, or evaluate it; see `shard` and `total`.
    rank : int
        Which of them this is, from 0 on.
    """

    saves_random_state = True
    widens = distributed.is_available()

    width = _Reading(lambda: 1 if (ranks := present()) is None else ranks.share.width)
    rank = _Reading(lambda: 0 if (ranks := present()) is None else ranks.share.rank)

    def __init__(self, settings: Mapping[str, Any] | None = None, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.device = _chosen_device(self.settings.get("device"))
        _set_deterministic(self.settings.get("deterministic", True))
        self._attributes = Attributes(self, _FIXED)

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Put into force what goes by a usual name.

        ``batch_size`` or ``bs`` is set on every `hippo.Loader` on ``self``. Everything else is a field of
        parameter groups (``lr``, ``weight_decay``, …) and set in all groups of every optimizer on ``self``.
        As in torch's own schedules, ``momentum`` of an optimizer of the Adam kind is its first beta.

        Override it for other names, and pass on the rest: ``super().setup(rest)``.
        """
        for name, value in hp.items():
            if name in _BATCH_SIZE:
                self._set_batch_size(name, value)
            else:
                self._set_field(name, value)

    @classmethod
    def fits(cls, values: Mapping[str, Any], width: int) -> bool:
        """Return whether the batch size, where it is a hyper-parameter, can be split evenly."""
        sizes = [values[name] for name in _BATCH_SIZE if name in values]
        return all(isinstance(size, Real) and size % width == 0 for size in sizes)

    def shard(self, items: Items) -> Items:
        """Return this worker's part of a tensor, a list or a range, where several work together.

        In `evaluate` the parts differ by one item at most. In `train` they are equally long, or everybody
        gets everything: `hippo.Loader` does the same with its batches.
        """
        ranks = present()
        return items if ranks is None else ranks.part_of(items)

    def total(self, value: Amount) -> Amount:
        """Return the sum of a number, or of a tensor, over all workers that hold a part of what it counts."""
        ranks = present()
        return value if ranks is None else ranks.total_of(value)

    def set_group(self, optimizer: Optimizer, **fields: Any) -> None:
        """Set fields of all parameter groups of an optimizer: ``self.set_group(self.optimizer, lr=0.1)``."""
        for name, value in fields.items():
            if not _set_group_field(optimizer, name, value):
                raise TrainerError(
                    f"{type(optimizer).__name__} has no {name!r}; its parameter groups have "
                    f"{_listed(_fields_of(optimizer))}"
                )

    def save(self, path: Path) -> None:
        """Write the whole state to one file."""
        self.write(self.snapshot(), path)

    def load(self, path: Path) -> None:
        """Take the whole state back; reads data only, never code."""
        state, random = packing.read(path)
        self._attributes.put(state)
        randomness.restore(RandomState.from_bytes(random))

    def reset(self) -> bool:
        """Go back to the state right after `build`."""
        return self._attributes.reset()

    def finish(self) -> None:
        """Put all modules into evaluation mode."""
        self._attributes.set_evaluation_mode()

    def snapshot(self) -> object:
        """Return a copy of the whole state in main memory; from a GPU it may still be on its way."""
        return self._attributes.pack(randomness.capture().to_bytes())

    def write(self, snapshot: Any, path: Path) -> None:
        """Write what `snapshot` returned."""
        with path.open("wb") as file:
            file.writelines(snapshot.content())

    def content(self, snapshot: Any, wait: bool = True) -> Sequence[memoryview] | None:
        """Return what `write` writes, unless that is overridden."""
        if type(self).write is not TorchTrainer.write or not (wait or snapshot.is_complete):
            return None
        pieces: list[memoryview] = snapshot.content()
        return pieces

    def around(self, call: UserCall) -> AbstractContextManager[None]:
        """Guard the user's methods: note what they make, and put back what evaluate() changes."""
        match call:
            case "build":
                return self._attributes.building()
            case "setup":
                return self._attributes.setting_up()
            case "train":
                return self._attributes.training() if present() is None else self._training_together()
            case "evaluate":
                return self._attributes.evaluating() if present() is None else self._evaluating_together()

    @contextmanager
    def _training_together(self) -> Iterator[None]:
        ranks = present()
        assert ranks is not None
        with (
            self._attributes.training(),
            ranks.during("train"),
            averaged(self._attributes.trainable(), ranks),
            PartOfBatch(ranks),
        ):
            yield

    @contextmanager
    def _evaluating_together(self) -> Iterator[None]:
        ranks = present()
        assert ranks is not None
        with self._attributes.evaluating(), ranks.during("evaluate"):
            yield

    # Hyper-parameters by name.

    def _set_batch_size(self, name: str, value: Any) -> None:
        loaders = [leaf for _, leaf in self._attributes.leaves() if isinstance(leaf, Loader)]
        if not loaders:
            raise TrainerError(
                f"{name!r} cannot be set: there is no hippo.Loader on self of {type(self).__name__}"
            )
        for loader in loaders:
            loader.batch_size = value

    def _set_field(self, name: str, value: Any) -> None:
        optimizers = list(self._optimizers())
        found = [_set_group_field(optimizer, name, value) for optimizer in optimizers]
        if not any(found):
            fields = {field for optimizer in optimizers for field in _fields_of(optimizer)}
            known = f"{_listed(_BATCH_SIZE)} for the loaders on self" + (
                f" and {_listed(fields)} for the optimizers"
                if optimizers
                else "; there is no optimizer on self"
            )
            raise TrainerError(
                f"setup() does not know {name!r}; it knows {known}. Override setup() in "
                f"{type(self).__name__}, deal with {name!r} there, and pass the rest on to super().setup()"
            )

    def _optimizers(self) -> Iterator[Optimizer]:
        return (leaf for _, leaf in self._attributes.leaves() if isinstance(leaf, Optimizer))


def _set_group_field(optimizer: Optimizer, name: str, value: Any) -> bool:
    """Set a field in the groups that have it; return whether any has."""
    found = False
    for group in optimizer.param_groups:
        if name in group and name not in ("params", "param_names"):
            if isinstance(group[name], Tensor):
                group[name].fill_(value)
            else:
                group[name] = value
            found = True
        elif name == "momentum" and "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
            found = True
    return found


def _fields_of(optimizer: Optimizer) -> set[str]:
    return {name for group in optimizer.param_groups for name in group} - {"params", "param_names"}


def _listed(names: Any) -> str:
    return ", ".join(map(repr, sorted(names)))


def _chosen_device(name: Any) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(
            f"settings['device'] is {name!r}; expected a torch device, like 'cuda:0' or 'cpu'"
        ) from error


def _set_deterministic(wanted: Any) -> None:
    if not isinstance(wanted, bool):
        raise InvalidInput(f"settings['deterministic'] is {wanted!r}; expected True or False")
    torch.use_deterministic_algorithms(wanted, warn_only=True)
    torch.backends.cudnn.deterministic = wanted
    if wanted:
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
