"""What other programs can use of a trained trainer: the `state_dict`s on it, as plain data.

Plain data is tensors on the CPU, numbers, text and None, in dicts, lists and tuples: what
``torch.load(path, weights_only=True)`` reads. What is not (a function in a parameter group, say) is left out
and named. Modules and optimizers are found wherever they are on the trainer, each once, under the shortest
path.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hippotune.errors import HippoError, NothingToExport
from hippotune.trainers.state import walk

_NOT_ENTERED = (
    *(np.ndarray, types.FunctionType, types.MethodType, functools.partial),
    logging.Logger,  # which leads to all others
)
_LEFT_OUT = object()


@dataclass(frozen=True, slots=True)
class Parts:
    """The modules and the optimizers on a trainer, by path: ``model``, ``agent.policy``, ``nets[0]``."""

    modules: Mapping[str, Any]
    optimizers: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlainState:
    """A trainer's `state_dict`s as plain data; `omitted` names what cannot be written so."""

    modules: dict[str, Any]
    optimizers: dict[str, Any]
    state: dict[str, Any] | None
    omitted: tuple[str, ...]


def find_parts(trainer: object) -> Parts:
    """Return the modules and the optimizers on a trainer; a module inside another one is part of that."""
    if "torch" not in sys.modules:  # then there is none
        return Parts({}, {})
    import torch

    modules: dict[str, torch.nn.Module] = {}
    optimizers: dict[str, torch.optim.Optimizer] = {}
    known: set[int] = set()
    for name, value in walk.objects(trainer, reduced=False, exact=True, enter=_is_entered):
        path = name.removeprefix("self.")
        if isinstance(value, torch.optim.Optimizer):
            optimizers[path] = value
        elif isinstance(value, torch.nn.Module) and id(module := _unwrapped(value)) not in known:
            known.add(id(module))
            modules[path] = module
    inside = {id(part) for module in modules.values() for part in module.modules() if part is not module}
    return Parts({path: each for path, each in modules.items() if id(each) not in inside}, optimizers)


def _is_entered(value: object) -> bool:
    import torch

    return not isinstance(value, (*_NOT_ENTERED, torch.Tensor, torch.optim.Optimizer))


def plain_state(trainer: object) -> PlainState:
    """Return what can be exported of a trainer; `NothingToExport` where that is nothing."""
    parts = find_parts(trainer)
    defines_state = callable(getattr(type(trainer), "state_dict", None))
    name = type(trainer).__name__
    if not parts.modules and not defines_state:
        raise NothingToExport(
            f"{name} has no torch module on it and defines no state_dict(): there is nothing to export as "
            "plain data. best.load() returns the trained trainer itself"
        )
    plain = _Plain()
    modules, optimizers = (
        {path: plain.of(_state_dict(each, path), f"{kind}.{path}") for path, each in found.items()}
        for kind, found in (("modules", parts.modules), ("optimizers", parts.optimizers))
    )
    state = plain.of(_state_dict(trainer, name), "state") if defines_state else None
    return PlainState(modules, optimizers, state, tuple(plain.omitted))


def _state_dict(owner: Any, path: str) -> Any:
    try:
        if (optim := sys.modules.get("torch.optim")) and type(owner).state_dict is optim.Optimizer.state_dict:
            # Its wrapper, which keeps it from being compiled, imports half of torch.
            return inspect.unwrap(optim.Optimizer.state_dict)(owner)
        return owner.state_dict()
    except Exception as error:
        raise HippoError(
            f"{path}.state_dict() failed, so that it cannot be exported: {type(error).__name__}: {error}"
        ) from error


def _unwrapped(module: Any) -> Any:
    """Return the module itself, where it was compiled or is trained in parallel."""
    import torch

    if hasattr(module, "_orig_mod"):
        return _unwrapped(module._orig_mod)
    if isinstance(module, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        return _unwrapped(module.module)
    return module


# Plain data.


class _Plain:
    """Makes plain data; tensors that are one stay one. `omitted` grows by what cannot be made plain."""

    def __init__(self) -> None:
        self.omitted: list[str] = []
        self._tensors: dict[Any, tuple[Any, Any]] = {}
        self._entered: set[int] = set()

    def of(self, value: Any, path: str) -> Any:
        """Return a state as plain data."""
        plain = self._made(value, path)
        return {} if plain is _LEFT_OUT else plain

    def _made(self, value: Any, path: str) -> Any:
        import torch

        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value.copy()) if value.dtype.kind in "biuf" else value.tolist()
        if value is None or isinstance(value, bool | torch.dtype):
            return value
        for kind in (int, float):
            if isinstance(value, kind):
                return kind(value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bytes | bytearray):
            return bytes(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device):
            return str(value)
        if (
            isinstance(value, Mapping | list | tuple | set | frozenset | deque)
            and id(value) not in self._entered
        ):
            self._entered.add(id(value))
            try:
                return self._mapping(value, path) if isinstance(value, Mapping) else self._list(value, path)
            finally:
                self._entered.discard(id(value))
        self.omitted.append(path)
        return _LEFT_OUT

    def _mapping(self, value: Mapping[Any, Any], path: str) -> dict[Any, Any]:
        made: dict[Any, Any] = OrderedDict() if hasattr(value, "_metadata") else {}
        for key, each in value.items():
            inner = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
            if not isinstance(key, str | int | float | np.generic):
                self.omitted.append(inner)
            elif (plain := self._made(each, inner)) is not _LEFT_OUT:
                made[self._made(key, inner)] = plain
        if hasattr(value, "_metadata"):  # versions of modules, by which they read older states
            made._metadata = self._made(dict(value._metadata), f"{path}._metadata")  # type: ignore[attr-defined]
        return made

    def _list(self, value: Any, path: str) -> list[Any] | tuple[Any, ...]:
        items = [self._made(each, f"{path}[{index}]") for index, each in enumerate(value)]
        items = [None if each is _LEFT_OUT else each for each in items]
        return tuple(items) if isinstance(value, tuple) else items

    def _tensor(self, value: Any) -> Any:
        import torch

        tensor = value.detach().as_subclass(torch.Tensor)
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return tensor.cpu()
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in self._tensors:
            return self._tensors[place][1]
        plain = tensor.cpu().resolve_conj().resolve_neg()
        if plain.untyped_storage().nbytes() != plain.numel() * plain.element_size():
            plain = plain.clone()  # without the rest of the memory that it is a part of
        self._tensors[place] = value, plain
        return plain
