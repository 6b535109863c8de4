"""Source code as syntax trees: finding the definition of a function or class, and writing it in one way.

It works wherever `linecache` has the lines: files, archives, notebook cells. What it returns does not depend
on comments, docstrings and layout, nor on where the file lies. A definition is returned only if it compiles
to the code that is running: a file that was edited since it was run does not speak for that code.

Parsed files are kept as long as the process lives, by size and time of change.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

from hippotune.identity.bytecode import code_text
from hippotune.identity.uses import Uses, uses_in

_SILENT = {"ctx", "kind", "type_comment", "type_ignores"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, eq=False)
class Definition:
    """A function, lambda or class in a syntax tree."""

    node: Any

    @cached_property
    def text(self) -> str:
        """What it says. Of a class, what is not a function, a class or an attribute with a value."""
        if not isinstance(self.node, ast.ClassDef):
            return canonical(self.node)
        rest = [
            inner for inner in self.node.body if not isinstance(inner, _DEFINITIONS) and not _is_value(inner)
        ]
        return canonical([self.node.bases, self.node.keywords, self.node.decorator_list, _undocumented(rest)])

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The names that the body of a class gives values by itself."""
        targets = [
            target
            for inner in getattr(self.node, "body", ())
            for target in getattr(inner, "targets", None) or [getattr(inner, "target", None)]
        ]
        return frozenset(target.id for target in targets if isinstance(target, ast.Name))

    @cached_property
    def arguments(self) -> CodeType:
        """What its decorators, and of a class its metaclass and the like, are given, compiled."""
        calls: list[Any] = [
            each for each in getattr(self.node, "decorator_list", ()) if isinstance(each, ast.Call)
        ]
        calls += [self.node] if isinstance(self.node, ast.ClassDef) else []
        values = [value for each in calls for value in getattr(each, "args", ())]
        values += [keyword.value for each in calls for keyword in each.keywords]
        body: list[ast.stmt] = [ast.Expr(value) for value in values]
        return compile(ast.fix_missing_locations(ast.Module(body, [])), "", "exec")

    @cached_property
    def uses(self) -> Uses:
        """What it does with names from around it."""
        return uses_in(self.node)


class _File:
    """One version of a file."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.signature = _signature(file)
        self.tree: ast.Module | None = None
        self._codes: dict[tuple[str, int], list[str]] = {}
        self._found: dict[str, list[Definition]] = {}
        self._verified = False
        try:
            self.tree = ast.parse("".join(lines)) if lines else None
        except (SyntaxError, ValueError):
            return  # not Python, or a cell with commands of its own
        if self.tree is None:
            return
        for qualified, node in _definitions(self.tree, ""):
            self._found.setdefault(qualified, []).append(Definition(node))
        try:
            compiled = compile(self.tree, "", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return  # a cell that awaits at its top level
        self._verified = True
        for code in _codes_in(compiled):
            key = (code.co_qualname, code.co_firstlineno)
            self._codes.setdefault(key, []).append(code_text(code))

    def named(self, qualified: str) -> list[Definition]:
        return self._found.get(qualified, [])

    def holds(self, code: CodeType) -> bool:
        """Whether this is the source of some code."""
        known = self._codes.get((code.co_qualname, code.co_firstlineno), ())
        return not self._verified or code_text(code) in known


_files: dict[str, list[_File]] = {}


class Source:
    """The definitions of what is running. Every file is looked at once for changes."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def module_tree(self, module: ModuleType) -> ast.Module | None:
        """Return the tree of a whole module."""
        file = getattr(module, "__file__", None)
        versions = self._versions(file, vars(module)) if file else []
        return versions[0].tree if versions else None

    def of_function(self, function: FunctionType) -> list[Definition]:
        """Return the definition of a function; where several lambdas share a line, all of them.

        The source does not say then which of them it is: the compiled code does.
        """
        code = function.__code__
        for version in self._versions(code.co_filename, function.__globals__):
            found = [
                definition
                for definition in version.named(code.co_qualname)
                if _first_line(definition.node) == code.co_firstlineno
            ]
            if found and version.holds(code):
                return found
        return []

    def of_class(self, cls: type, functions: Iterable[FunctionType]) -> Definition | None:
        """Return the definition of a class, in a file that its functions name where the module has none."""
        places = [(f.__code__.co_filename, f.__code__.co_firstlineno, f.__globals__) for f in functions]
        module = sys.modules.get(cls.__module__)
        if module is not None and getattr(module, "__file__", None):
            places.append((str(module.__file__), 0, vars(module)))
        for file, line, names in places:
            found = [
                definition
                for version in self._versions(file, names)[:1]
                for definition in version.named(cls.__qualname__)
                if isinstance(definition.node, ast.ClassDef)
            ]
            holding = [each for each in found if each.node.lineno <= line <= (each.node.end_lineno or 0)]
            if found:
                return (holding or found)[-1]
        return None

    def _versions(self, file: str, names: Mapping[str, Any]) -> list[_File]:
        """Return what is known of a file, the newest first."""
        known = _files.setdefault(file, [])
        if file not in self._seen:
            self._seen.add(file)
            linecache.checkcache(file)
            lines = linecache.getlines(file, dict(names))
            if not known or known[0].signature != _signature(file):
                known.insert(0, _File(file, lines))
        return known


def canonical(node: object) -> str:
    """Write a tree so that equal code gives equal text, in every Python version."""
    if isinstance(node, ast.AST):
        fields = ((name, _telling(node, name, value)) for name, value in ast.iter_fields(node))
        shown = [f"{name}={canonical(value)}" for name, value in fields if value is not None and value != []]
        return f"{type(node).__name__}({','.join(shown)})"
    if isinstance(node, list):
        return f"[{','.join(map(canonical, node))}]"
    return repr(node)


def _telling(node: ast.AST, name: str, value: Any) -> Any:
    """Return what a field says about what the code does."""
    if name in _SILENT:
        return None
    if name == "body" and isinstance(node, _DOCUMENTED):
        return _undocumented(value)
    if isinstance(node, ast.JoinedStr):  # some versions of Python put empty strings into it
        return [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
    return value


def _undocumented(body: list[Any]) -> list[Any]:
    """Return statements without a docstring before them."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def _is_value(statement: ast.stmt) -> bool:
    """Whether a statement only gives names their values."""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return bool(targets) and all(isinstance(target, ast.Name) for target in targets)


def _signature(file: str) -> object:
    """Return what changes when the lines of a file do."""
    entry = linecache.cache.get(file)
    if entry is None or len(entry) < 4:
        return None
    size, changed, lines, _ = entry
    return (size, changed, None if changed is not None else "".join(lines))


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield classes, functions and lambdas below a node, under their qualified names."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        match child:
            case ast.ClassDef(name=name):
                yield prefix + name, child
                inner = f"{prefix}{name}."
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, child
                inner = f"{prefix}{name}.<locals>."
            case ast.Lambda():
                yield prefix + "<lambda>", child
                inner = f"{prefix}<lambda>.<locals>."
        yield from _definitions(child, inner)


def _first_line(node: Any) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(min(part.lineno for part in (node, *decorators)))
