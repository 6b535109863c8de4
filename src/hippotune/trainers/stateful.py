"""Objects that keep a state of their own: modules, optimizers, and all else with state_dict/load_state_dict.

A state goes back into the object that it was taken from, or into one that was made in the same way, without
replacing its tensors' owners: whoever holds a parameter or a parameter group goes on holding the right one.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from hippotune.errors import CheckpointError
from hippotune.trainers.encoding import Copy, decode, encode


def is_stateful(value: object) -> bool:
    """Return whether an object keeps a state that can be taken and put back."""
    return (
        not isinstance(value, type)
        and callable(getattr(value, "state_dict", None))
        and callable(getattr(value, "load_state_dict", None))
    )


def state_of(value: Any, copy: Copy) -> dict[str, Any]:
    """Return an object's state as data."""
    if not isinstance(value, nn.Module):
        return {"class": type(value).__qualname__, "state": encode(value.state_dict(), copy)}
    parts = modules_in(value)
    if all(map(keeps_to_custom, parts)):
        state, metadata = _customary_state(value)
    else:
        state = value.state_dict()
        metadata = dict(getattr(state, "_metadata", {}))
    return {
        "state": {key: encode(item, copy) for key, item in state.items()},
        "metadata": metadata,  # versions, by which modules read the states of older releases
        "modes": [part.training for part in parts],
        "trainable": [parameter.requires_grad for parameter in _own_parameters(parts)],
    }


def put_state(value: Any, data: dict[str, Any], name: str) -> None:
    """Put a state back; raise `CheckpointError` where it is another object's."""
    if isinstance(value, nn.Module):
        _put_module(value, data, name)
        return
    if data.get("class") != type(value).__qualname__:
        raise CheckpointError(
            f"self.{name} is a {type(value).__qualname__}, and was a {data.get('class')} when it was saved"
        )
    try:
        if isinstance(value, Optimizer):
            _put_optimizer(value, decode(data["state"]))
        else:
            value.load_state_dict(decode(data["state"]))
    except (ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(
            f"self.{name} ({type(value).__qualname__}) cannot take its state back: {error}"
        ) from error


def _put_module(module: nn.Module, data: dict[str, Any], name: str) -> None:
    saved = data["state"]
    state = OrderedDict(
        (key, item if isinstance(item, Tensor) else decode(item)) for key, item in saved.items()
    )
    state._metadata = OrderedDict(data["metadata"])  # type: ignore[attr-defined]
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise CheckpointError(
            f"the checkpoint holds another model than self.{name}: {_differences(module, state) or error}"
        ) from error
    parts = modules_in(module)
    for part, mode in zip(parts, data["modes"], strict=True):
        part.training = mode
    for parameter, trainable in zip(_own_parameters(parts), data["trainable"], strict=True):
        parameter.requires_grad_(trainable)


def _differences(module: nn.Module, saved: dict[str, Any]) -> str:
    here = module.state_dict()
    found = [f"{key!r} is not in the checkpoint" for key in here.keys() - saved.keys()]
    found += [f"{key!r} is only in the checkpoint" for key in saved.keys() - here.keys()]
    found += [
        f"{key!r} has shape {_shape(saved[key])} in the checkpoint and {_shape(here[key])} here"
        for key in here.keys() & saved.keys()
        if _shape(here[key]) != _shape(saved[key])
    ]
    return "; ".join(sorted(found)[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")


def _shape(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, Tensor) or nn.parameter.is_lazy(value):
        return None
    return tuple(value.shape)


def _put_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    groups = optimizer.param_groups
    optimizer.load_state_dict(state)
    # torch makes new groups; whoever holds the old ones must not be left behind.
    for group, loaded in zip(groups, optimizer.param_groups, strict=True):
        group.clear()
        group.update(loaded)
    optimizer.param_groups = groups
    # torch casts to the type of the parameter, which loses bits where an optimizer computes in another.
    for index, entry in optimizer.state_dict()["state"].items():
        for key, saved in state["state"][index].items() if isinstance(entry, dict) else ():
            if isinstance(saved, Tensor) and entry[key].dtype != saved.dtype:
                entry[key] = saved.to(entry[key].device)


def modules_in(value: object) -> list[nn.Module]:
    """Return a module and all its parts, each once; nothing for what is not a module."""
    if not isinstance(value, nn.Module):
        return []
    # As value.modules(), which makes names for them too and takes several times as long.
    found: dict[nn.Module, None] = {}
    waiting: list[nn.Module | None] = [value]
    while waiting:
        part = waiting.pop()
        if part is not None and part not in found:
            found[part] = None
            if part._modules:
                waiting += reversed(part._modules.values())
    return list(found)


def keeps_to_custom(part: nn.Module) -> bool:
    """Return whether a module's own state is just its parameters and buffers, as torch takes it."""
    hooked = part._state_dict_hooks or part._state_dict_pre_hooks
    kind: Any = type(part)
    return not hooked and _class_keeps_to_custom(kind)


@cache
def _class_keeps_to_custom(kind: Any) -> bool:
    methods = ("state_dict", "_save_to_state_dict", "get_extra_state", "__getattr__")
    return all(getattr(kind, name) is getattr(nn.Module, name) for name in methods)


def _customary_state(module: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what module.state_dict() returns, and its metadata, in a fraction of the time."""
    state: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    waiting: list[tuple[str, nn.Module | None]] = [("", module)]
    while waiting:
        prefix, part = waiting.pop()
        if part is None:
            continue
        metadata[prefix[:-1]] = {"version": part._version}
        for name, parameter in part._parameters.items():
            if parameter is not None:
                state[prefix + name] = parameter
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._non_persistent_buffers_set:
                state[prefix + name] = buffer
        waiting += [(f"{prefix}{name}.", inner) for name, inner in reversed(part._modules.items())]
    return state, metadata


def _own_parameters(parts: list[nn.Module]) -> list[nn.Parameter]:
    return [parameter for part in parts for parameter in part._parameters.values() if parameter is not None]


def parameters_in(value: object) -> list[nn.Parameter]:
    """Return the parameters of a module; what is a parameter is its own."""
    if isinstance(value, nn.Parameter):
        return [value]
    return list(value.parameters()) if isinstance(value, nn.Module) else []
