"""A torch trainer's attributes as its state: taken, put back, guarded.

Everything on the trainer is one of these:

* an object that keeps its own state: modules, optimizers, loaders, whatever has state_dict/load_state_dict;
* data: numbers, strings, tensors, arrays, random generators, and lists, tuples, dicts, sets of these;
* made by build() or setup() and left alone by training: everything else, and what is large and came from
  build(). It is not saved, because both run again before a state is put back.

Lists, tuples and dicts may mix them. What fits nowhere raises a `TrainerError` that names the attribute.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hippotune.errors import CheckpointError, TrainerError
from hippotune.trainers.constancy import fingerprint
from hippotune.trainers.encoding import PLAIN, same
from hippotune.trainers.packing import Packed, Packer, named
from hippotune.trainers.refusals import check_allowed
from hippotune.trainers.remembered import Memory, Routine
from hippotune.trainers.stateful import is_stateful, modules_in, parameters_in
from hippotune.trainers.tree import MISSING, Encoder, leaves, put

# From here on, what build() leaves is taken for data to learn from.
_MANY_BYTES = 1 << 16
_MANY_ITEMS = 1000
_CONTAINERS = (list, tuple, set, frozenset, dict, OrderedDict)


@dataclass(frozen=True, slots=True)
class _Built:
    """The attributes right after build(): the objects themselves, and a copy of their state."""

    objects: dict[str, Any]
    state: dict[str, Any]
    made: dict[int, object]


class Attributes:
    """The attributes of one trainer, except those named in `fixed`."""

    def __init__(self, owner: object, fixed: frozenset[str]) -> None:
        self._reference = weakref.ref(owner)  # a trainer that is dropped shall be gone at once
        self._fixed = fixed
        self._built: _Built | None = None
        self._made: dict[int, object] = {}  # what build() and setup() made, by id
        self._constants: dict[int, tuple[object, int]] = {}  # what build() left, by id, with its version
        self._was_watched = False
        self._memory = Memory()
        self._routine: Routine | None = None

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of everything that is not plain, and not a list, tuple or dict."""
        for name, value in self._present().items():
            yield from leaves(value, name)

    def set_evaluation_mode(self) -> None:
        """Put all modules into evaluation mode."""
        for _, value in self.leaves():
            if isinstance(value, nn.Module):
                value.eval()

    def trainable(self) -> list[Tensor]:
        """Return every leaf tensor that can get a gradient, in the same order in every process."""
        found: dict[int, Tensor] = {}
        for _, value in sorted(self.leaves(), key=lambda leaf: leaf[0]):
            tensors: list[Tensor] = [*parameters_in(value)]
            if isinstance(value, Optimizer):
                tensors += [tensor for group in value.param_groups for tensor in group["params"]]
            elif isinstance(value, Tensor) and value.requires_grad:
                tensors.append(value)
            found |= {id(tensor): tensor for tensor in tensors if tensor.is_leaf and _has_gradient(tensor)}
        return list(found.values())

    # Taking and putting back.

    def pack(self, extra: bytes) -> Packed:
        """Return a copy of the whole state, and `extra` with it."""
        everything = vars(self._owner)
        if self._routine is not None and (packed := self._routine.pack(everything, extra)) is not None:
            return packed
        present = self._present()
        packer = Packer()
        encoder = Encoder(packer, self._was_made, self._is_constant)
        texts, is_all_known = [], True
        for name, value in present.items():
            text = self._memory.written_again(name, value, packer, encoder)
            if text is None:
                text = self._written(name, value, packer, encoder)
                is_all_known &= type(value) in PLAIN
            texts.append(text)
        self._memory.forget_all_but(present)
        if self._built is not None:
            for name, value in encoder.relied_on:
                if not self._was_made(value):
                    raise TrainerError(_made_in_training(name, value))
        self._routine = None
        if is_all_known:
            self._routine = self._memory.routine(list(everything), present, texts, len(extra))
        return packer.pack(texts, extra)

    def _written(self, name: str, value: Any, packer: Packer, encoder: Encoder) -> bytes:
        mark, has_met = packer.mark, encoder.has_met(value)
        data = encoder.encode(value, name)
        text = named(name, data)
        if has_met:
            pass
        elif isinstance(value, (nn.Module, Optimizer)):
            self._memory.remember(name, value, text, packer, mark)
        elif is_stateful(value):
            self._memory.remember_state(name, value, data)
        elif all(map(self._is_constant, value if type(value) is tuple else (value,))):
            self._memory.remember_constants(name, value, text)
        return text

    def put(self, state: dict[str, Any]) -> None:
        """Put a whole state back, after build() and setup()."""
        self._put(state, self._present())

    def reset(self) -> bool:
        """Go back to the state after build(); False where something cannot be taken back."""
        built = self._built
        noted = [value for value, _ in self._constants.values()]
        if built is None or any(_is_large(value) and self._has_changed(value) for value in noted):
            return False
        try:
            self._put(built.state, built.objects)
        except CheckpointError:  # something has got other parts or another shape since
            return False
        self._made = built.made
        self._routine = None
        self._note_constants()
        return True

    def _put(self, state: dict[str, Any], objects: dict[str, Any]) -> None:
        self._unbind_all_but(state)
        for name, data in state.items():
            setattr(self._owner, name, put(data, objects.get(name, MISSING), name))
        for parameter in self._parameters():  # gradients belong to a step, not to the state between
            parameter.grad = None

    # Around the user's methods.

    @contextmanager
    def building(self) -> Iterator[None]:
        """Note what build() makes, and keep a copy of the state that it leaves."""
        yield
        check_allowed(self.leaves())
        self._made = self._by_id()
        self._note_constants()
        objects = self._present()
        state = Encoder(_clone_on_cpu, self._was_made, self._is_large_constant).encode_all(objects)
        self._built = _Built(objects, state, self._made)

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Note what setup() makes."""
        before = self._by_id()
        yield
        check_allowed(self.leaves())
        after = self._by_id()
        self._routine = None
        self._made = {key: value for key, value in after.items() if key in self._made or key not in before}

    @contextmanager
    def training(self) -> Iterator[None]:
        """Around the first step, look whether anything changes that is not saved."""
        if self._was_watched:
            yield
            return
        self._was_watched = True
        before = [(name, value, fingerprint(value, self._owner)) for name, value in self._unsaved()]
        yield
        for name, value, mark in before:
            if mark is not None and fingerprint(value, self._owner) != mark:
                raise TrainerError(_changed_in_training(name, value))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation mode and no gradients; afterwards everything is as it was before."""
        objects = self._present()
        state = Encoder(_clone, self._was_made, self._is_large_constant).encode_all(objects)
        constants = [(name, value) for name, value in self._lasting() if self._is_large_constant(value)]
        modes = [(part, part.training) for _, value in self.leaves() for part in modules_in(value)]
        gradients = [(parameter, parameter.grad) for parameter in self._parameters()]
        self.set_evaluation_mode()
        for parameter, _ in gradients:
            parameter.grad = None
        try:
            with torch.no_grad():
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            for parameter, gradient in gradients:
                parameter.grad = gradient
            self._put_where_changed(state, objects)
        for name, value in constants:
            if self._has_changed(value):
                raise TrainerError(
                    f"evaluate() changes self.{name} in place, which is too large to be put back after every "
                    "evaluation; change a copy of it"
                )

    def _put_where_changed(self, state: dict[str, Any], objects: dict[str, Any]) -> None:
        self._unbind_all_but(objects)
        now = Encoder(_itself, self._was_made, self._is_large_constant).encode_all(objects)
        for name, value in objects.items():
            is_same = same(state[name], now[name])
            setattr(self._owner, name, value if is_same else put(state[name], value, name))

    # What is what.

    @property
    def _owner(self) -> object:
        return self._reference()

    def _present(self) -> dict[str, Any]:
        present = vars(self._owner).copy()
        for name in self._fixed:
            present.pop(name, None)
        return present

    def _by_id(self) -> dict[int, object]:
        return {id(value): value for _, value in self.leaves()}

    def _unbind_all_but(self, names: Container[str]) -> None:
        for name in self._present():
            if name not in names:
                delattr(self._owner, name)

    def _was_made(self, value: object) -> bool:
        return self._made.get(id(value)) is value

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for _, value in self.leaves() for parameter in parameters_in(value)]

    def _lasting(self) -> Iterator[tuple[str, Any]]:
        for name, value in self._present().items():
            yield from _lasting(value, name)

    def _note_constants(self) -> None:
        self._constants = {id(value): (value, _version(value)) for _, value in self._lasting()}

    def _is_constant(self, value: object) -> bool:
        return id(value) in self._constants and not self._has_changed(value)

    def _is_large_constant(self, value: object) -> bool:
        return self._is_constant(value) and _is_large(value)

    def _has_changed(self, value: object) -> bool:
        noted, version = self._constants[id(value)]
        return noted is not value or _version(value) != version

    def _unsaved(self) -> Iterator[tuple[str, Any]]:
        for name, value in self._lasting():
            if self._is_constant(value) and not isinstance(value, Tensor):
                yield name, value
        encoder = Encoder(_itself, self._was_made, self._is_constant)
        encoder.encode_all(self._present())
        yield from ((name, value) for name, value in encoder.relied_on if not is_stateful(value))


def _clone_on_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().clone() if tensor.device.type == "cpu" else tensor.detach().cpu()


def _clone(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def _itself(tensor: Tensor) -> Tensor:
    return tensor.detach()


def _lasting(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield what may be a constant: tensors, which torch counts the changes of, and whatever is large."""
    kind = type(value)
    if isinstance(value, Tensor) or _is_large(value):
        yield name, value
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            yield from _lasting(item, f"{name}[{index}]")
    elif kind is dict or kind is OrderedDict:
        for key, item in value.items():
            yield from _lasting(item, f"{name}[{key!r}]")


def _is_large(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size() > _MANY_BYTES and not value.requires_grad
    if isinstance(value, np.ndarray):
        return value.nbytes > _MANY_BYTES
    return _count(value, _MANY_ITEMS) > _MANY_ITEMS


def _count(value: Any, most: int) -> int:
    """Return the number of items in containers, at any depth; about that where it is above `most`."""
    if type(value) not in _CONTAINERS:
        return 1
    count = len(value)
    for item in value.values() if isinstance(value, dict) else value:
        if count > most:
            break
        if type(item) not in PLAIN:
            count += _count(item, most)
    return count


def _has_gradient(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _version(value: object) -> int:
    return value._version if isinstance(value, Tensor) else 0


def _made_in_training(name: str, value: object) -> str:
    what = f"self.{name} ({type(value).__name__}) was made in train()"
    if is_stateful(value):
        return f"{what}, so there is nothing to load its state into; make it in build() or setup()"
    return (
        f"{what} and cannot be saved; expected numbers, strings, tensors, arrays and lists, tuples, dicts "
        "and sets of these, or an object with state_dict() and load_state_dict() that build() or setup() "
        "makes. Otherwise make it a local variable of train()"
    )


def _changed_in_training(name: str, value: object) -> str:
    what = f"self.{name} ({type(value).__name__}) changes in train(), but is not saved"
    if isinstance(value, np.ndarray) or type(value) in _CONTAINERS:
        return (
            f"{what}: what is as large as that after build() is taken for data to learn from. "
            "Make it a tensor, or make it in setup(), if it belongs to the state"
        )
    return (
        f"{what}: it has no state_dict() and load_state_dict(). Write these two, returning and taking back "
        "what changes, or make it a local variable of train()"
    )
