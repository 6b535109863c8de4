"""What a function does with names from around it: which it sets or calls, and with which literal keys.

Local variables are told apart by Python's own rules: a local list that is appended to is none of this.
A name that the function imports itself counts as one from around it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from hippotune.identity.bytecode import Chain

Action = Literal["reads", "calls", "sets", "binds"]
ITEM = "[]"
"""Stands in a chain for an item: ``STATE["x"].y`` is ``("STATE", "[]", "y")``."""
TYPE_OF = "type(…)"
"""Begins the chain of ``type(self).x``."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Use:
    """Something that is done with a name.

    `chain` is what it is done with. A call has the name of the method, which is not in the chain, or ``""``
    where the thing itself is called. `key` is the first argument of a call, the key of an item that is read,
    or what is looked for with ``in``: a literal text, the `ast.Name` of a variable, or None.
    """

    chain: Chain
    action: Action
    method: str = ""
    key: object = None


@dataclass(slots=True)
class Uses:
    """All that a function does with names from around it.

    `own` is what it does with its first parameter, `parameters` with the others (where they are not bound
    anew), and `imports` what its own import statements bring in: module, name and level by alias.
    """

    around: list[Use] = field(default_factory=list)
    own: list[Use] = field(default_factory=list)
    parameters: list[Use] = field(default_factory=list)
    imports: dict[str, tuple[str, str | None, int]] = field(default_factory=dict)


def uses_in(function: Any) -> Uses:
    """Read a function's tree. That of a class has none of this: its functions are read one by one."""
    found = Uses()
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        _Reader(found, function).read()
    return found


class _Reader(ast.NodeVisitor):
    def __init__(self, found: Uses, function: _Function) -> None:
        self._found = found
        self._function = function
        parameters = _parameters(function.args)
        self._first = parameters[0] if parameters else None
        self._parameters = set(parameters) - set(_assigned(_body(function)))
        self._locals: list[set[str]] = []
        self._globals: list[set[str]] = []

    def read(self) -> None:
        self._enter(self._function)

    # Scopes.

    def _enter(self, function: _Function) -> None:
        declared = _declared(function, ast.Global)
        outer = _declared(function, ast.Nonlocal)
        self._locals.append(_bound(function) - declared - outer)
        self._globals.append(declared)
        rebound = set(_assigned(_body(function)))
        for name in sorted(rebound & (declared | outer)):
            if name in declared or not self._is_local(name):
                self._found.around.append(Use((name,), "binds"))
        for statement in _body(function):
            self.visit(statement)
        self._locals.pop()
        self._globals.pop()

    def _is_local(self, name: str) -> bool:
        for bound, declared in zip(reversed(self._locals), reversed(self._globals), strict=True):
            if name in declared:
                return False
            if name in bound:
                return True
        return False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inner(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inner(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inner(node)

    def _inner(self, node: _Function) -> None:
        outside = (*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults)
        for part in outside:
            if part is not None:
                self.visit(part)
        self._enter(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._locals.append(set(_assigned(node.body)))
        self._globals.append(set())
        for statement in node.body:
            self.visit(statement)
        self._locals.pop()
        self._globals.pop()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self._found.imports[alias.asname or top] = (alias.name if alias.asname else top, None, 0)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._found.imports[alias.asname or alias.name] = (node.module or "", alias.name, node.level)

    # Uses.

    def _note(self, chain: Chain, action: Action, method: str = "", key: object = None) -> None:
        root, use = chain[0], Use(chain, action, method, key)
        if root == TYPE_OF or (root == self._first and self._is_parameter(root)):
            self._found.own.append(use)
        elif self._is_parameter(root):
            self._found.parameters.append(use)
        elif not self._is_local(root):
            self._found.around.append(use)

    def _is_parameter(self, name: str) -> bool:
        return name in self._parameters and not any(name in inner for inner in self._locals[1:])

    def visit_Call(self, node: ast.Call) -> None:
        key = _key(node.args[0]) if node.args else None
        target = node.func
        chain = self._chain(target.value if isinstance(target, ast.Attribute) else target)
        if chain is None:
            self.visit(target)
        else:
            self._keys_of(target)
            self._note(chain, "calls", target.attr if isinstance(target, ast.Attribute) else "", key)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_Compare(self, node: ast.Compare) -> None:
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                if (chain := self._chain(right)) is not None and _key(left) is not None:
                    self._note(chain, "reads", key=_key(left))
                    self.visit(left)
                    return
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._note((node.id,), "reads")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._reached(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._reached(node)

    def _reached(self, node: ast.Attribute | ast.Subscript) -> None:
        chain = self._chain(node)
        if chain is None:
            self.generic_visit(node)
            return
        self._keys_of(node)
        if not isinstance(node.ctx, ast.Load):
            self._note(chain, "sets", key=_key(node.slice) if isinstance(node, ast.Subscript) else None)
        elif isinstance(node, ast.Subscript):
            self._note(chain[:-1], "reads", key=_key(node.slice))
        else:
            self._note(chain, "reads")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def _keys_of(self, node: ast.expr) -> None:
        """Visit the keys inside a chain."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Subscript):
                self.visit(node.slice)
            node = node.value

    def _chain(self, node: ast.expr) -> Chain | None:
        match node:
            case ast.Name(id=name):
                return (name,)
            case ast.Attribute(value=value, attr=attribute):
                inner = self._chain(value)
                return None if inner is None else (*inner, attribute)
            case ast.Subscript(value=value):
                inner = self._chain(value)
                return None if inner is None else (*inner, ITEM)
            case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=name)]) if name == self._first:
                return (TYPE_OF,)
            case _:
                return None


def _key(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name():
            return node
        case _:
            return None


def _body(function: _Function) -> list[Any]:
    return function.body if isinstance(function.body, list) else [function.body]


def _parameters(arguments: ast.arguments) -> list[str]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [each.arg for each in (*named, arguments.vararg, arguments.kwarg) if each is not None]


def _bound(function: _Function) -> set[str]:
    """Return a function's local names, but for those that only its imports bind."""
    return {*_parameters(function.args), *_assigned(_body(function))}


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield everything in a function's own scope; comprehensions count as part of it."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _inside(ast.iter_child_nodes(node))


def _assigned(body: Iterable[ast.AST]) -> Iterator[str]:
    for node in _inside(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case _:
                pass


def _declared(function: _Function, kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    return {name for node in _inside(_body(function)) if isinstance(node, kind) for name in node.names}
