"""Trainers on PyTorch: devices, hyper-parameters by their usual names, evaluation mode, width."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

from hippotune.errors import InvalidInput, MissingExtra, TrainerError
from hippotune.short import listed

try:
    import torch
except ImportError as error:
    raise MissingExtra("TorchTrainer needs PyTorch: pip install 'hippotune[torch]'") from error

from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from hippotune.trainers import seeding
from hippotune.trainers.base import Trainer, UserCall
from hippotune.trainers.export import find_parts
from hippotune.trainers.parallel.gradients import averaged
from hippotune.trainers.parallel.random_ops import ShardedRandomOps
from hippotune.trainers.parallel.ranks import in_training, present
from hippotune.trainers.starting import load_modules
from hippotune.trainers.state.tensors import computed_names
from hippotune.trainers.torch.finding import find_all
from hippotune.trainers.torch.groups import fields_of, set_group_field
from hippotune.trainers.torch.loader import Loader
from hippotune.trainers.widths import BATCH_SIZE, splits_batch

_MIXTURE = ("mixture", "mix")
_NUDGE = 2

Items = TypeVar("Items")
Amount = TypeVar("Amount", int, float, Tensor)
Kind = TypeVar("Kind")
Model = TypeVar("Model", bound=nn.Module)


class _Reading:
    """An attribute that is read from a function. A trainer may have another of the same name instead."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read

    def __get__(self, instance: object, owner: type) -> int:
        return self._read()


class TorchTrainer(Trainer):
    """A trainer on PyTorch: hyper-parameters by their usual names, devices, determinism, width.

    The whole object is its state, as for every `Trainer`: modules, optimizers, gradients, schedulers,
    loaders, and everything else on ``self``.

    `evaluate` is called with all modules in evaluation mode and without gradients; their modes are put back
    afterwards.

    Settings
    --------
    device
        Where to train, like "cuda" or "cpu"; by default CUDA where there is any, then MPS, then the CPU.
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

    widens = distributed.is_available()

    width = _Reading(lambda: 1 if (ranks := present()) is None else ranks.share.width)
    rank = _Reading(lambda: 0 if (ranks := present()) is None else ranks.share.rank)

    def __init__(self, settings: Mapping[str, Any] | None = None, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.arrive()

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Apply the hyper-parameters with usual names.

        ``batch_size`` or ``bs`` is set on every `hippo.Loader` on ``self``, ``mixture`` or ``mix`` on every
        one of several sources. ``seed`` seeds the shared random generators anew, and the order of loaders
        from their next epoch on. Everything else is a field of parameter groups (``lr``, ``weight_decay``, …)
        and set in all groups of every optimizer on ``self``; as in torch's own schedules, ``momentum`` of an
        optimizer of the Adam kind is its first beta.

        Override it for other names, and pass on the rest: ``super().setup(rest)``.
        """
        for name, value in hp.items():
            if name in BATCH_SIZE:
                self._set_on_loaders(name, "batch_size", value)
            elif name in _MIXTURE:
                self._set_on_loaders(name, "mixture", value)
            elif name == "seed":
                self.reseed(value)
            else:
                self._set_field(name, value)

    def load_start(self, state: Any) -> None:
        """Load a `state_dict` into the model, or a Hippo export into the modules of the same names, strictly.

        The model is ``self.model``, or the only module on ``self``.
        """
        load_modules(find_parts(self).modules, state)

    @classmethod
    def fits(cls, values: Mapping[str, Any], width: int) -> bool:
        """Return whether the batch size, where it is a hyper-parameter, can be split evenly."""
        return splits_batch(values, width)

    def shard(self, items: Items) -> Items:
        """Return this worker's part of a tensor, a list or a range, where several work together.

        In `evaluate` the parts differ by one item at most. In `train` they are equally long, or every worker
        gets everything: `hippo.Loader` does the same with its batches.
        """
        ranks = present()
        return items if ranks is None else ranks.part_of(items)

    def total(self, value: Amount) -> Amount:
        """Return the sum of a number, or of a tensor, over all workers that train this batch."""
        ranks = present()
        return value if ranks is None else ranks.total_of(value)

    def parallel(self, model: Model) -> Model:
        """Return a model to train with: in torch's `DistributedDataParallel` where several workers do it.

        Gradients are averaged without it too, at the end of every backward(); with it, while that still runs.
        To be called in `train`, each time, for a local variable: ``model = self.parallel(self.model)``. It is
        the model itself on one worker, and outside of `train`.
        """
        if (ranks := in_training()) is None:
            return model
        from hippotune.trainers.parallel.wrapping import wrapped  # here, as it imports much of torch

        return cast("Model", wrapped(model, ranks))

    def set_group(self, optimizer: Optimizer, **fields: Any) -> None:
        """Set fields of all parameter groups of an optimizer: ``self.set_group(self.optimizer, lr=0.1)``."""
        for name, value in fields.items():
            if not set_group_field(optimizer, name, value):
                raise TrainerError(
                    f"{type(optimizer).__name__} has no {name!r}; its parameter groups have "
                    f"{listed(fields_of(optimizer))}"
                )

    def finish(self) -> None:
        """Put all modules into evaluation mode."""
        for module in self._found(nn.Module):
            module.eval()

    def arrive(self, to_train: bool = True) -> None:
        """Choose the device, and deterministic algorithms."""
        self.device = _chosen_device(self.settings.get("device"))
        if to_train:
            _set_deterministic(self.settings.get("deterministic", True))

    def nudge(self) -> None:
        """Make every other parameter a little greater, and those between them a little smaller."""
        with torch.no_grad():
            for tensor in self._trainable():
                signs = torch.ones(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
                signs[1::2] = -1
                tensor.mul_(1 + _NUDGE * torch.finfo(tensor.dtype).eps * signs.view(tensor.shape))

    def around(self, call: UserCall) -> AbstractContextManager[None]:
        """Evaluate without gradients and in evaluation mode; share the work out where there are several."""
        match call:
            case "train":
                return nullcontext() if present() is None else self._training_together()
            case "evaluate":
                return self._evaluating()
            case _:
                return nullcontext()

    @contextmanager
    def _training_together(self) -> Iterator[None]:
        ranks = present()
        assert ranks is not None
        with ranks.during("train"), averaged(self._trainable(), ranks), ShardedRandomOps(ranks):
            yield
        if ranks.wrappers and any(self._found(nn.parallel.DistributedDataParallel)):
            raise TrainerError(
                "what self.parallel() returns was kept on self: it belongs to the workers that train this "
                "step together. Call it in train() each time, and keep it in a local variable"
            )

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        ranks = present()
        modes = [(part, part.training) for module in self._found(nn.Module) for part in module.modules()]
        weights = [(part, name, vars(part).get(name)) for part, _ in modes for name in computed_names(part)]
        for part, _ in modes:
            part.training = False
        try:
            with torch.no_grad(), nullcontext() if ranks is None else ranks.during("evaluate"):
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            for (
                part,
                name,
                weight,
            ) in weights:  # the next call computes it anew; until then training may read it
                vars(part)[name] = weight

    def _trainable(self) -> list[Tensor]:
        """Return all tensors that get gradients, each once, in an order that is the same on every worker."""
        tensors: dict[int, Tensor] = {}
        for found in find_all(vars(self), (nn.Module, Optimizer, Tensor)):
            match found:
                case nn.Module():
                    inner: list[Tensor] = list(found.parameters())
                case Optimizer():
                    inner = [tensor for group in found.param_groups for tensor in group["params"]]
                case _:
                    inner = [found]
            tensors |= {id(tensor): tensor for tensor in inner if _is_trained(tensor)}
        return list(tensors.values())

    def _found(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the objects of a kind on self: in attributes, containers and objects of any depth."""
        return find_all(vars(self), kind)

    # Hyper-parameters by name.

    def reseed(self, seed: int) -> None:
        """Seed the shared random generators, and the order of loaders from their next epoch on."""
        self.seed = seed = seeding.checked(seed)
        seeding.seed_all(seed)
        for loader in self._found(Loader):
            loader.seed = seed

    def _set_on_loaders(self, name: str, attribute: str, value: Any) -> None:
        mixed = attribute == "mixture"
        loaders = [loader for loader in self._found(Loader) if loader.is_mixture or not mixed]
        if not loaders:
            kind = "hippo.Loader of several sources" if mixed else "hippo.Loader"
            raise TrainerError(f"{name!r} cannot be set: there is no {kind} on self of {type(self).__name__}")
        for loader in loaders:
            setattr(loader, attribute, value)

    def _set_field(self, name: str, value: Any) -> None:
        optimizers = list(self._found(Optimizer))
        found = [set_group_field(optimizer, name, value) for optimizer in optimizers]
        if not any(found):
            fields = {field for optimizer in optimizers for field in fields_of(optimizer)}
            known = f"{listed((*BATCH_SIZE, *_MIXTURE))} for the loaders on self, 'seed'" + (
                f" and {listed(fields)} for the optimizers"
                if optimizers
                else "; there is no optimizer on self"
            )
            raise TrainerError(
                f"setup() does not know {name!r}; it knows {known}. Override setup() in "
                f"{type(self).__name__}, deal with {name!r} there, and pass the rest on to super().setup()"
            )


def _is_trained(tensor: Tensor) -> bool:
    return (
        tensor.is_leaf
        and (tensor.requires_grad or isinstance(tensor, nn.Parameter))
        and (tensor.is_floating_point() or tensor.is_complex())
    )


def _chosen_device(name: Any) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(
            f"settings['device'] is {name!r}; expected a torch device, like 'cuda' or 'cpu'"
        ) from error
    if device.type == "cuda" and (device.index or 0) >= (gpus := torch.cuda.device_count()):
        raise InvalidInput(
            f"settings['device'] is {name!r}, but this worker sees {gpus} GPUs. hippo.Local gives each "
            "worker a GPU of its own and hippo.Ray what slot= says; expected 'cuda', or no device at all"
        )
    return device


def _set_deterministic(wanted: Any) -> None:
    if not isinstance(wanted, bool):
        raise InvalidInput(f"settings['deterministic'] is {wanted!r}; expected True or False")
    torch.use_deterministic_algorithms(wanted, warn_only=True)
    torch.backends.cudnn.deterministic = wanted
    if wanted:
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
