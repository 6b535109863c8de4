"""Compiled code: what it says where there is no source, and which names from around it it reads."""

from __future__ import annotations

import dis
import functools
import inspect
from types import CodeType

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_TAKES_ALL = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

Chain = tuple[str, ...]
"""A name and the attributes taken of it: ``("models", "Net")``."""


@functools.lru_cache(maxsize=10_000)
def code_text(code: CodeType) -> str:
    """Write compiled code. Lines and files do not count."""
    constants = [
        code_text(constant) if isinstance(constant, CodeType) else _constant(constant)
        for constant in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars
    arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _TAKES_ALL
    return f"{code.co_code.hex()}{code.co_exceptiontable.hex()}{constants}{names}{arguments}"


def _constant(value: object) -> str:
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(_constant, value))})"
    return f"({','.join(map(_constant, value))})" if isinstance(value, tuple) else repr(value)


@functools.lru_cache(maxsize=10_000)
def names_read(code: CodeType) -> tuple[Chain, ...]:
    """Return the names from around a function that it reads, each with the attributes taken of it."""
    found: set[Chain] = set()
    outside = set(code.co_freevars)
    pending: list[CodeType] = [code]
    while pending:
        body = pending.pop()
        pending += [constant for constant in body.co_consts if isinstance(constant, CodeType)]
        instructions = list(dis.get_instructions(body))
        own = {instruction.argval for instruction in instructions if instruction.opname == "STORE_NAME"}
        chain: Chain = ()
        for instruction in instructions:
            name, argument = instruction.opname, instruction.argval
            if (name in _GLOBALS and argument not in own) or (name in _CELLS and argument in outside):
                found.add(chain)
                chain = (argument,)
            elif name in _ATTRIBUTES and chain:
                chain = (*chain, argument)
            else:
                found.add(chain)
                chain = ()
        found.add(chain)
    return tuple(sorted(found - {()}))


@functools.lru_cache(maxsize=10_000)
def attributes_read(code: CodeType) -> frozenset[str]:
    """Return the names of all attributes and methods that code takes of anything."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= attributes_read(constant)
    return frozenset(found)


def modules_imported(code: CodeType) -> frozenset[str]:
    """Return the modules that import statements in code name, without the dots of relative ones."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= modules_imported(constant)
    return frozenset(found)


def stores(code: CodeType, variable: str) -> bool:
    """Whether code gives a variable of an enclosing function another value, as a counter or a cache is."""
    return any(
        each.opname == "STORE_DEREF" and each.argval == variable for each in dis.get_instructions(code)
    )


def strings_in(code: CodeType) -> frozenset[str]:
    """Return the texts that code holds."""
    found = {constant for constant in code.co_consts if isinstance(constant, str)}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= strings_in(constant)
    return frozenset(found)
