"""Torch's objects as state: what pickle loses of them, and torch refuses to pickle, is kept.

Tensors are views of storages, so that aliases, views and strides stay as they are; gradients go with them.
This module is used only where torch is loaded already.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim import Optimizer
from torch.utils.data import dataloader

from hippotune.trainers.state.loader_iterators import reduce_loader_iterator
from hippotune.trainers.state.refusals import Refused

Reduced = tuple[Any, ...]
Storage = torch.UntypedStorage

Layout = tuple[Any, ...]
"""How a tensor lies in its storage: type, offset, shape, strides; whether it is trained, and a parameter."""

_PLAIN = (Tensor, nn.Parameter)


def reducer_for(kind: type) -> Callable[[Any], Any] | None:
    """Return how objects of a kind, neither tensors nor storages, are reduced; None: as pickle does."""
    if issubclass(kind, nn.Module):
        return reduce_module
    if issubclass(kind, Optimizer):
        return reduce_optimizer
    if issubclass(kind, torch.Generator):
        return reduce_generator
    if issubclass(kind, dataloader._BaseDataLoaderIter):
        return reduce_loader_iterator
    return None


def reduce_tensor(
    tensor: Tensor, storage_of: Callable[[Storage], Any], layouts: dict[Layout, Layout]
) -> Reduced:
    """Return how a tensor is made again.

    `storage_of` gives what stands for a storage; `layouts` has each layout once: pickle writes it once.
    """
    grad = tensor.grad if tensor.is_leaf else None
    kind = type(tensor)
    if kind in _PLAIN and tensor.layout is torch.strided and not _is_special(tensor):
        storage = tensor.untyped_storage()
        _check(tensor, storage)
        where = (tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        layout = (*where, tensor.requires_grad, kind is nn.Parameter)
        layout = layouts.setdefault(layout, layout)
        function = _inference_tensor if tensor.is_inference() else _tensor
        if grad is None:
            return function, (storage_of(storage), layout)
        return function, (storage_of(storage), layout), grad, None, None, _set_grad
    _check(tensor, None)
    function, arguments, *_ = tensor.__reduce_ex__(2)  # type: ignore[no-untyped-call]
    return function, arguments, grad, None, None, _set_grad


def _check(tensor: Tensor, storage: Storage | None) -> None:
    if tensor.grad_fn is not None:
        raise Refused(
            tensor,
            "is part of a live autograd graph, which is lost when it is saved. Keep self.x = x.detach(), or "
            "the number self.x = x.item(), or make it a local variable of train()",
        )
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        raise Refused(
            tensor,
            "has hooks, which are lost when it is saved. Register them in train() and remove them at its "
            "end, or use hooks of a module instead",
        )
    if storage is not None and not storage.resizable() and (name := getattr(storage, "filename", None)):
        raise Refused(
            tensor,
            f"is memory shared with a file ({name}): what is written to it cannot be taken back when a trial "
            "starts from a checkpoint. Map it with torch.from_file(..., shared=False)",
        )


def _is_special(tensor: Tensor) -> bool:
    return bool(
        tensor.is_quantized
        or tensor.is_nested
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.device.type == "meta"
        or tensor.__dict__
    )


def reduce_storage(storage: Storage, content: Any) -> Reduced:
    """Return how a storage is made again from its content, which is a storage in main memory."""
    return _storage, (content, str(storage.device))


def reduce_typed(typed: Any, one_storage: Callable[[Storage], Any]) -> Reduced:
    """Return how a storage with a type is made again."""
    return _typed, (one_storage(typed._untyped_storage), typed.dtype)


def reduce_optimizer(optimizer: Optimizer) -> Reduced | None:
    """Keep all attributes of an optimizer; torch's own way drops those that a subclass adds."""
    if type(optimizer).__getstate__ is not Optimizer.__getstate__:
        return None
    return _new_optimizer, (type(optimizer),), dict(vars(optimizer))


def reduce_module(module: nn.Module) -> Reduced | None:
    """Return how a module is made again that torch does not pickle, or not wholly."""
    kind = type(module)
    if parametrize.is_parametrized(module) and kind.__name__.startswith("Parametrized"):
        base = kind.__mro__[1]
        return _new, (base,), vars(module), None, None, _set_parametrized
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return itself, (module.module,)  # a checkpoint is the same at every width
    computed = _computed_weights(module)
    if computed or ("_compiled_call_impl" in vars(module) and kind.__getstate__ is nn.Module.__getstate__):
        return _new, (kind,), {**vars(module), **computed}
    return None


def _computed_weights(module: nn.Module) -> dict[str, Tensor]:
    """Return weights that a hook computes from others before every call, without the way to them."""
    found = {name: vars(module).get(name) for name in computed_names(module)}
    return {
        name: value.detach()
        for name, value in found.items()
        if isinstance(value, Tensor) and value.grad_fn is not None
    }


def computed_names(module: nn.Module) -> set[str]:
    """Return the names of weights that a hook computes from others before every call."""
    hooks = module._forward_pre_hooks.values()
    names = (getattr(it, "name", getattr(it, "_tensor_name", None)) for it in hooks if _is_of_torch(it))
    return {name for name in names if isinstance(name, str)}


def _is_of_torch(hook: Any) -> bool:
    return type(hook).__module__.startswith("torch.nn.utils.")


def reduce_compiled(function: Any) -> Reduced | None:
    """Return how a function is compiled again; None for one that torch has not compiled."""
    original = vars(function).get("_torchdynamo_orig_callable")
    if original is None or not vars(function).get("_torchdynamo_inline"):
        return None
    eval_frame = sys.modules["torch._dynamo.eval_frame"]
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, eval_frame._TorchDynamoContext):
            return _compile, (cell.cell_contents, original)
    return None


def reduce_generator(generator: torch.Generator) -> Reduced:
    """Return how a random generator is made again; torch's default generator stays the default one."""
    if generator is torch.default_generator:
        return _default_generator, ()
    return _generator, (str(generator.device), generator.get_state())


# Called by pickle when a checkpoint is loaded.


def _new(cls: Any) -> Any:
    return cls.__new__(cls)


def _new_optimizer(cls: Any) -> Any:
    # Torch wraps step() of a class, for hooks, when the first optimizer of it is made. A scheduler refers to
    # that step by name.
    optimizer = cls.__new__(cls)
    optimizer._patch_step_function()
    return optimizer


def itself(value: Any) -> Any:
    """Return the value."""
    return value


def storage_of(tensor: Tensor) -> Storage:
    """Return the memory that a tensor is a view of."""
    return tensor.untyped_storage()


def storage_in_array(owner: Any, offset: int, length: int) -> Storage:
    """Return a part of an array's memory."""
    memory = owner.reshape(-1).view("u1")[offset : offset + length]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a read-only array: nothing is written to it here
        return torch.from_numpy(memory).untyped_storage()


def _typed(storage: Storage, dtype: torch.dtype) -> Any:
    return torch.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)  # type: ignore[no-untyped-call]


def _inference_tensor(storage: Storage, layout: Layout) -> Tensor:
    with torch.inference_mode():
        return _tensor(storage, layout)


def _tensor(storage: Storage, layout: Layout) -> Tensor:
    dtype, offset, shape, strides, requires_grad, is_parameter = layout
    tensor = torch.empty(0, dtype=dtype, device=storage.device)
    tensor.set_(storage, offset, shape, strides)
    if is_parameter:
        return nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def _set_grad(tensor: Tensor, grad: Tensor) -> None:
    tensor.grad = grad


def _storage(content: Storage, device: str) -> Storage:
    if device == "cpu":
        return content
    here = _device_here(device)
    return content if here.type == "cpu" else content.to(device=here)


def _device_here(name: str) -> torch.device:
    """Return the device that stands here for one of the process that saved the state."""
    device = torch.device(name)
    if device.type == "cuda" and torch.cuda.is_available():
        return device if (device.index or 0) < torch.cuda.device_count() else torch.device("cuda")
    if device.type == "mps" and torch.backends.mps.is_available():
        return device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _set_parametrized(module: Any, state: dict[str, Any]) -> None:
    vars(module).update(state)
    parametrize._inject_new_class(module)
    for name in module.parametrizations:
        parametrize._inject_property(module, name)


def _compile(context: Any, original: Any) -> Any:
    return context(original)


def _default_generator() -> torch.Generator:
    return torch.default_generator


def _generator(device: str, state: Tensor) -> torch.Generator:
    generator = torch.Generator(_device_here(device))
    generator.set_state(state)
    return generator
