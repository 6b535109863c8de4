"""Functions, classes, modules and cells as state.

What is found by its name is saved as that name, in a script or a notebook too, and so binds to the worker's
own copy. What is not (closures, lambdas, classes made in a function) is saved by its code; its globals are
those of the module in the worker. The variables that closures share are state, and stay shared.
"""

from __future__ import annotations

import importlib
import marshal
import sys
import types
from typing import Any

Reduced = tuple[Any, ...]

SHIPPED: dict[str, dict[str, Any]] = {}
"""The globals of modules whose code was sent to this process, by the names of the modules."""

_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__")


def is_found_by_name(value: Any) -> bool:
    """Return whether a function or class is what its module has under its name."""
    found: Any = sys.modules.get(value.__module__ or "")
    try:
        for part in value.__qualname__.split("."):
            found = getattr(found, part)
    except AttributeError:
        return False
    return found is value


def reduce_function(function: types.FunctionType) -> Reduced:
    """Return how a function that has no name of its own is made again."""
    made_of = marshal.dumps(function.__code__), function.__globals__["__name__"], function.__closure__
    attributes = {name: getattr(function, name) for name in _ATTRIBUTES}
    return _function, made_of, (attributes, vars(function)), None, None, _finish_function


def reduce_module(module: types.ModuleType) -> Reduced | None:
    """By its name, where it is of a class of its own, as `torch.backends.cudnn` is."""
    found = sys.modules.get(module.__name__) is module
    return (importlib.import_module, (module.__name__,)) if found else None


def reduce_cell(cell: types.CellType) -> Reduced:
    """Return how a variable that closures share is made again."""
    try:
        content = (cell.cell_contents,)
    except ValueError:  # not assigned yet
        return types.CellType, ()
    return types.CellType, (), content, None, None, _fill_cell


# Called by pickle when a checkpoint is loaded.


def _function(code: bytes, module: str, closure: tuple[types.CellType, ...] | None) -> types.FunctionType:
    names = SHIPPED.get(module)
    if names is None:
        names = vars(sys.modules.get(module) or importlib.import_module(module))
    return types.FunctionType(marshal.loads(code), names, closure=closure)


def _finish_function(function: types.FunctionType, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    attributes, others = state
    for name, value in attributes.items():
        setattr(function, name, value)
    vars(function).update(others)


def _fill_cell(cell: types.CellType, content: tuple[Any]) -> None:
    cell.cell_contents = content[0]
