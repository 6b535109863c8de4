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
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hippo.errors import CheckpointError, TrainerError
from hippo.trainers.constancy import fingerprint
from hippo.trainers.encoding import PLAIN, Copy, same
from hippo.trainers.refusals import check_allowed
from hippo.trainers.stateful import clear_gradients, is_stateful
from hippo.trainers.tree import MISSING, Encoder, leaves, put

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

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of everything that is not plain, and not a list, tuple or dict."""
        for name, value in self._present().items():
            yield from leaves(value, name)

    # Taking and putting back.

    def take(self, copy: Copy) -> dict[str, Any]:
        """Return the whole state as data."""
        encoder = Encoder(copy, self._was_made, self._is_constant)
        state = encoder.encode_all(self._present())
        if self._built is not None:
            for name, value in encoder.relied_on:
                if not self._was_made(value):
                    raise TrainerError(_made_in_training(name, value))
        return state

    def put(self, state: dict[str, Any]) -> None:
        """Put a whole state back, after build() and setup()."""
        self._put(state, self._present())

    def reset(self) -> bool:
        """Go back to the state after build(); False where something cannot be taken back."""
        built = self._built
        if built is None or any(_is_large(value) and self._has_changed(value) for value, _ in self._noted()):
            return False
        try:
            self._put(built.state, built.objects)
        except CheckpointError:  # something has got other parts or another shape since
            return False
        self._made = built.made
        self._note_constants()
        return True

    def _put(self, state: dict[str, Any], objects: dict[str, Any]) -> None:
        self._unbind_all_but(state)
        for name, data in state.items():
            setattr(self._owner, name, put(data, objects.get(name, MISSING), name))
        for _, value in self.leaves():
            clear_gradients(value)

    # Around the user's methods.

    @contextmanager
    def building(self) -> Iterator[None]:
        """Note what build() makes, and keep a copy of the state that it leaves."""
        yield
        check_allowed(self.leaves())
        self._made = self._by_id()
        self._note_constants()
        encoder = Encoder(
            clone_on_cpu, self._was_made, lambda value: self._is_constant(value) and _is_large(value)
        )
        objects = self._present()
        self._built = _Built(objects, encoder.encode_all(objects), self._made)

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Note what setup() makes."""
        before = self._by_id()
        yield
        check_allowed(self.leaves())
        after = self._by_id()
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
        state = Encoder(_clone, self._was_made, self._is_constant).encode_all(objects)
        modules = [value for _, value in self.leaves() if isinstance(value, nn.Module)]
        modes = [(part, part.training) for module in modules for part in module.modules()]
        gradients = [(parameter, parameter.grad) for module in modules for parameter in module.parameters()]
        for module in modules:
            module.eval()
            clear_gradients(module)
        try:
            with torch.no_grad():
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            for parameter, gradient in gradients:
                parameter.grad = gradient
            self._put_where_changed(state, objects)

    def _put_where_changed(self, state: dict[str, Any], objects: dict[str, Any]) -> None:
        self._unbind_all_but(objects)
        now = Encoder(_itself, self._was_made, self._is_constant).encode_all(objects)
        for name, value in objects.items():
            is_same = same(state[name], now[name])
            setattr(self._owner, name, value if is_same else put(state[name], value, name))

    # What is what.

    @property
    def _owner(self) -> object:
        return self._reference()

    def _present(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self._owner).items() if name not in self._fixed}

    def _by_id(self) -> dict[int, object]:
        return {id(value): value for _, value in self.leaves()}

    def _unbind_all_but(self, names: Container[str]) -> None:
        for name in self._present():
            if name not in names:
                delattr(self._owner, name)

    def _was_made(self, value: object) -> bool:
        return self._made.get(id(value)) is value

    def _note_constants(self) -> None:
        parts = [part for name, value in self._present().items() for _, part in _lasting(value, name)]
        self._constants = {id(part): (part, _version(part)) for part in parts}

    def _noted(self) -> Iterable[tuple[object, int]]:
        return self._constants.values()

    def _is_constant(self, value: object) -> bool:
        return id(value) in self._constants and not self._has_changed(value)

    def _has_changed(self, value: object) -> bool:
        noted, version = self._constants[id(value)]
        return noted is not value or _version(value) != version

    def _unsaved(self) -> Iterator[tuple[str, Any]]:
        for name, value in self._present().items():
            for part_name, part in _lasting(value, name):
                if self._is_constant(part) and not isinstance(part, Tensor):
                    yield part_name, part
        encoder = Encoder(_itself, self._was_made, self._is_constant)
        encoder.encode_all(self._present())
        yield from ((name, value) for name, value in encoder.relied_on if not is_stateful(value))


def clone_on_cpu(tensor: Tensor) -> Tensor:
    """Return a copy in main memory."""
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
    kind = type(value)
    if kind not in _CONTAINERS:
        return 1
    count = len(value)
    items = (
        ()
        if count > most or kind in (set, frozenset)
        else value.values()
        if isinstance(value, dict)
        else value
    )
    for item in items:
        if count > most:
            break
        if type(item) not in PLAIN:
            count += _count(item, most)
    return count


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
