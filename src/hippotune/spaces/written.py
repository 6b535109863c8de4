"""Sequences and distributions as people write them: calls by name. Nothing else in the text is ever run."""

from __future__ import annotations

import ast
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
    try:
        found = ast.parse(value, mode="eval").body
    except SyntaxError:
        return value
    is_call = isinstance(found, ast.Call) and isinstance(found.func, ast.Name)
    return _evaluated(found, value) if is_call else value


def _evaluated(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _NOTATION:
            given = [_evaluated(each, text) for each in args]
            named = {str(each.arg): _evaluated(each.value, text) for each in keywords}
            try:
                return getattr(hippo, name)(*given, **named)
            except TypeError as error:
                raise InvalidInput(f"{text!r} cannot be made: {error}") from error
        case ast.Call(func=ast.Name(id=name)):
            raise InvalidInput(f"{text!r} calls {name}; expected one of {', '.join(sorted(_NOTATION))}")
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluated(each, text) for each in items]
        case _:
            try:
                return ast.literal_eval(node)
            except (ValueError, TypeError):
                raise InvalidInput(f"{text!r} has more than names, numbers, text and lists in it") from None
