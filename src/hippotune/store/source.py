"""Source code as syntax trees: finding the definition of an object, writing it in one way, reading its names.

It works wherever `linecache` has the lines: files, archives, notebook cells. What it returns does not depend
on comments, docstrings and layout, nor on where the file lies.
"""

from __future__ import annotations

import ast
import copy
import dis
import importlib.util
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_STORES = {"STORE_NAME"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_SILENT = {"ctx", "kind", "type_comment", "type_ignores"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source:
    """Syntax trees of files, each parsed once."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}
        self._definitions: dict[str, dict[str, list[Any]]] = {}

    def module_tree(self, module: ModuleType) -> ast.Module | None:
        """Return the tree of a whole module."""
        file = getattr(module, "__file__", None)
        return self._tree(file, vars(module)) if file else None

    def class_node(self, cls: type, functions: Iterable[FunctionType]) -> ast.ClassDef | None:
        """Return the definition of a class, in a file that its functions name where the module has none."""
        places = [(f.__code__.co_filename, f.__code__.co_firstlineno, f.__globals__) for f in functions]
        module = sys.modules.get(cls.__module__)
        if module is not None and getattr(module, "__file__", None):
            places.append((str(module.__file__), 0, vars(module)))
        for file, line, names in places:
            nodes = [
                node
                for node in self._defined(file, names).get(cls.__qualname__, ())
                if isinstance(node, ast.ClassDef)
            ]
            holding = [node for node in nodes if node.lineno <= line <= (node.end_lineno or 0)]
            if nodes:
                return (holding or nodes)[-1]
        return None

    def function_nodes(self, function: FunctionType) -> list[ast.AST]:
        """Return the definition of a function; where several lambdas share a line, all of them."""
        code = function.__code__
        named = self._defined(code.co_filename, function.__globals__).get(code.co_qualname, ())
        return [node for node in named if _first_line(node) == code.co_firstlineno]

    def statements_binding(self, name: str, module: str) -> list[ast.stmt]:
        """Return the statements outside of functions and classes that give a module's name its value."""
        loaded = sys.modules.get(module)
        tree = self.module_tree(loaded) if loaded is not None else None
        return [statement for statement in _outer(tree.body if tree else ()) if name in _bound(statement)]

    def _tree(self, file: str, names: Mapping[str, Any]) -> ast.Module | None:
        if file not in self._trees:
            linecache.checkcache(file)
            lines = linecache.getlines(file, dict(names))
            try:
                self._trees[file] = ast.parse("".join(lines)) if lines else None
            except (SyntaxError, ValueError):
                self._trees[file] = None  # not Python, or a cell with commands of its own
        return self._trees[file]

    def _defined(self, file: str, names: Mapping[str, Any]) -> dict[str, list[Any]]:
        if file not in self._definitions:
            found: dict[str, list[Any]] = {}
            tree = self._tree(file, names)
            for qualified, node in _definitions(tree, "") if tree else ():
                found.setdefault(qualified, []).append(node)
            self._definitions[file] = found
        return self._definitions[file]


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
    if name == "body" and isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        return value[1:]
    if isinstance(node, ast.JoinedStr):  # some versions of Python put empty strings into it
        return [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
    return value


def compiled(node: ast.AST) -> CodeType:
    """Compile a definition, statement or module by itself: what it takes from around it becomes global."""
    match node:
        case ast.Module():
            tree = node
        case ast.expr():
            tree = ast.Module([ast.copy_location(ast.Expr(node), node)], [])
        case _:
            tree = ast.Module([node], [])  # type: ignore[list-item]
    try:
        return compile(tree, "", "exec", dont_inherit=True)
    except SyntaxError:  # `nonlocal` names variables of a function around the definition
        return compile(_Freed().visit(copy.deepcopy(tree)), "", "exec", dont_inherit=True)


class _Freed(ast.NodeTransformer):
    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Global:
        return ast.copy_location(ast.Global(node.names), node)


def global_names(code: CodeType) -> list[tuple[str, ...]]:
    """Return the global names that code reads, each with the attributes taken of it: ``models.Net``."""
    found: set[tuple[str, ...]] = set()
    pending: list[CodeType] = [code]
    while pending:
        body = pending.pop()
        pending += [constant for constant in body.co_consts if isinstance(constant, CodeType)]
        instructions = list(dis.get_instructions(body))
        own = {instruction.argval for instruction in instructions if instruction.opname in _STORES}
        name: tuple[str, ...] = ()
        for instruction in instructions:
            if instruction.opname in _LOADS and instruction.argval not in own:
                found.add(name)
                name = (instruction.argval,)
            elif instruction.opname in _ATTRIBUTES and name:
                name = (*name, instruction.argval)
            else:
                found.add(name)
                name = ()
    return sorted(found - {()})


def imports_in(node: ast.AST, package: str) -> Iterator[tuple[str, str | None]]:
    """Yield what the imports inside a definition bring in: a module, and the name taken from it, if any."""
    for inner in ast.walk(node):
        match inner:
            case ast.Import(names=names):
                yield from ((alias.name, None) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                try:
                    origin = importlib.util.resolve_name("." * level + (module or ""), package)
                except ImportError:
                    continue
                yield from ((origin, None if alias.name == "*" else alias.name) for alias in names)


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


def _outer(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the simple statements and definitions of a module, those under its ifs and loops too."""
    for statement in statements:
        bodies = [
            body
            for field in ("body", "orelse", "finalbody", "handlers", "cases")
            if isinstance(body := getattr(statement, field, None), list)
        ]
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not bodies:
            if isinstance(statement, ast.stmt):
                yield statement
            continue
        for body in bodies:
            yield from _outer(body)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes in place."""
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {alias.asname or alias.name.partition(".")[0] for alias in names}
        case ast.Assign(targets=targets):
            reached: list[ast.expr] = list(targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            reached = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            reached = [owner]  # model.eval()
        case _:
            return set()
    return {inner.id for target in reached for inner in ast.walk(target) if isinstance(inner, ast.Name)}
