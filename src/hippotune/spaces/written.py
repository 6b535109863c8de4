"""Sequences and distributions as people write them: calls by name. Nothing else in the text is ever run."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import hippotune as hippo
from hippotune.errors import InvalidInput

_NOTATION = {
    name
    for name, home in hippo._MODULES.items()
    if home in ("hippotune.sequences", "hippotune.spaces")
    and name not in ("Config", "Function", "from_torch")
}


def read_notation(value: Any) -> Any:
    """Return a value of a space, with text that calls a sequence or a distribution as what it says."""
    if isinstance(value, list):
        return [read_notation(each) for each in value]
    if not isinstance(value, str):
        return value
    begin = re.match(r"\s*(\w+)\s*\(", value)
    is_meant = begin is not None and begin[1] in _NOTATION
    try:
        found = ast.parse(value.strip(), mode="eval").body
    except SyntaxError as error:
        if is_meant:
            raise InvalidInput(f"{value!r} cannot be read: {error.msg}") from None
        return value
    is_call = isinstance(found, ast.Call) and isinstance(found.func, ast.Name)
    return _evaluated(found, value) if is_call or is_meant else value


def argument_names(function: Any) -> str:
    """Return the names of what a function or a class takes: "value, milestones, gamma"."""
    return ", ".join(inspect.signature(function).parameters)


def _evaluated(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _NOTATION:
            given = [_evaluated(each, text) for each in args]
            named = {str(each.arg): _evaluated(each.value, text) for each in keywords}
            kind = getattr(hippo, name)
            try:
                return kind(*given, **named)
            except TypeError as error:
                raise InvalidInput(
                    f"{text!r} cannot be made: {error}; {name} takes {argument_names(kind)}"
                ) from error
        case ast.Call(func=ast.Name(id=name)):
            raise InvalidInput(f"{text!r} calls {name}; expected one of {', '.join(sorted(_NOTATION))}")
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluated(each, text) for each in items]
        case _:
            try:
                return ast.literal_eval(node)
            except (ValueError, TypeError):
                raise InvalidInput(f"{text!r} has more than names, numbers, text and lists in it") from None
