"""What a function takes from around it that compiled code does not show: own imports, and literal keys.

Names are followed whether they are local or not: a use counts only where the name leads to something that
matters, such as ``os.environ`` or a module that the function imports.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from hippotune.identity.bytecode import Chain


@dataclass(frozen=True, slots=True)
class Use:
    """Something that is done with a name.

    `chain` is what it is done with. A call has the name of the method, which is not in the chain, or ``""``
    where the thing itself is called. `key` is the first argument of a call, the key of an item that is read,
    or what is looked for with ``in``: a literal text, the `ast.Name` of a variable, or None.
    """

    chain: Chain
    method: str = ""
    key: object = None
    called: bool = False


@dataclass(frozen=True, slots=True)
class Import:
    """A name that an import statement binds: to `attribute` of a module, or to `bound`, a module.

    ``import a.b`` loads ``a.b`` and binds ``a``. One alias may be bound several times, as in two branches.
    """

    alias: str
    module: str
    attribute: str | None = None
    level: int = 0
    bound: str = ""


@dataclass(slots=True)
class Uses:
    """All uses, and what a function's own import statements bring in."""

    around: list[Use] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)


def uses_in(function: Any) -> Uses:
    """Read a function's tree. That of a class has none of this: its functions are read one by one."""
    reader = _Reader()
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        for statement in function.body:
            reader.visit(statement)
    elif isinstance(function, ast.Lambda):
        reader.visit(function.body)
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found = Uses()

    def _add(self, chain: Chain, method: str = "", key: object = None, called: bool = False) -> None:
        self.found.around.append(Use(chain, method, key, called))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            bound = alias.name if alias.asname else top
            self.found.imports.append(Import(alias.asname or top, alias.name, bound=bound))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            module = node.module or ""
            self.found.imports.append(Import(alias.asname or alias.name, module, alias.name, node.level))

    def visit_Call(self, node: ast.Call) -> None:
        target, method = node.func, ""
        chain = _chain(target)
        if isinstance(target, ast.Attribute):
            chain, method = _chain(target.value), target.attr
        if chain is None:
            self.visit(target)
        else:
            self._add(chain, method, _key(node.args[0]) if node.args else None, called=True)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_Compare(self, node: ast.Compare) -> None:
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                if (chain := _chain(right)) is not None and _key(left) is not None:
                    self._add(chain, key=_key(left))
                    self.visit(left)
                    return
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        chain = _chain(node.value)
        if chain is None:
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._add(chain, key=_key(node.slice))
        self.visit(node.slice)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = _chain(node)
        if chain is None:
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._add(chain)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._add((node.id,))


def _chain(node: ast.expr) -> Chain | None:
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attribute):
            inner = _chain(value)
            return None if inner is None else (*inner, attribute)
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
