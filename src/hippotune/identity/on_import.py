"""Which statements of a module an import runs, under which conditions, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import accumulate

Block = tuple[tuple[ast.AST, ...], list[ast.stmt]]


def blocks(statement: ast.stmt) -> list[Block]:
    """Return the blocks of a compound statement that an import runs, each with what decides whether it does.

    Two statements run together exactly if their conditions are equal.
    """
    match statement:
        case ast.ClassDef(body=body):
            return [((), body)]
        case ast.If(test=test, body=body, orelse=orelse):
            known = _is_true(test)
            negated = ast.UnaryOp(ast.Not(), test)
            found = [] if known is False else [_block([test] if known is None else [], body)]
            return found if known else [*found, _block([negated] if known is None else [], orelse)]
        case ast.While(test=head, body=body, orelse=orelse) | ast.For(iter=head, body=body, orelse=orelse):
            return [_block([head], body), _block([head, _ELSE], orelse)]
        case ast.With(items=items, body=body):
            return [_block([item.context_expr for item in items], body)]
        case ast.Try(body, handlers, orelse, final) | ast.TryStar(body, handlers, orelse, final):
            caught = [_block([_EXCEPT, *([each.type] if each.type else [])], each.body) for each in handlers]
            return [_block([], body), *caught, _block([_ELSE], orelse), _block([], final)]
        case ast.Match(subject=subject, cases=cases):
            return [
                _block([subject, each.pattern, *([each.guard] if each.guard else [])], each.body)
                for each in cases
            ]
        case _:
            return []


_ELSE, _EXCEPT = ast.Constant("else"), ast.Constant("except")


def _block(heads: list[ast.AST], body: list[ast.stmt]) -> Block:
    return tuple(heads), body


def _is_true(test: ast.expr) -> bool | None:
    """Return what a condition is while a module is imported; None where that is not known."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            known = _is_true(operand)
            return None if known is None else not known
        case ast.BoolOp(op=op, values=values):
            each = [_is_true(value) for value in values]
            decides = isinstance(op, ast.Or)
            return decides if decides in each else None if None in each else not decides
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            is_name = any(isinstance(side, ast.Name) and side.id == "__name__" for side in (left, right))
            if is_name and "__main__" in ast.unparse(test):
                return isinstance(op, ast.NotEq | ast.NotIn)
    return None


def modules_imported(tree: ast.Module, package: str) -> list[str]:
    """Return the names of modules that statements at the top of a module may import, packages first."""
    found: list[str] = []
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            found += [each for alias in node.names for each in with_packages(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            found += [*with_packages(origin), *(f"{origin}.{alias.name}" for alias in node.names)]
    return found


def with_packages(name: str) -> list[str]:
    """Return the name of a module below those of its packages, which are imported before it."""
    return list(accumulate(name.split("."), "{}.{}".format))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for _, inner in blocks(statement):
            yield from _statements(inner)
