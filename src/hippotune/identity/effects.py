"""What modules of the user's do when they are imported, beyond giving names to things.

A statement at the top of a module that calls into an installed package, or assigns to something of one, can
change what training computes without being read by it: ``torch.set_default_dtype(…)``, ``gym.register(…)``,
``torch.nn.Linear.reset_parameters = f``. So it belongs to the identity of all that is read in the module, and
in the modules that import it. Calls that do not reach results (random seeds, logging, display, threads,
arguments, folders, Hippo's own) do not, nor does anything below ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from hippotune.identity.source import canonical
from hippotune.identity.surroundings import LEFT_ASIDE

_HARMLESS_CALLS = re.compile(
    r".*(seed|print|verbos|warning|logg|log_|download|login|thread|sharing|start_method|empty_cache"
    r"|style|theme|display|progress|set_device|deterministic|freeze|cache_dir|set_dir).*",
    re.IGNORECASE,
)
_HARMLESS_PARTS = re.compile(r".*(logg|warning|display|style|theme).*", re.IGNORECASE)
_HARMLESS_PACKAGES = {
    "absl", "dotenv", "hippotune", "hydra", "IPython", "matplotlib", "mlflow", "plotly", "pytest", "ray",
    "rich", "seaborn", "tqdm", "wandb",
}  # fmt: skip
_HARMLESS_OWNERS = {"logging", "matplotlib", "pandas", "pytest", "ssl", "sys", "warnings"}
_SETS = re.compile(r"(set|register|enable|disable|use)_.*|register|update")
# Objects with the settings of a package.
_OBJECTS = ("torch.backends", "jax._src.config")
_NOT_ON_IMPORT = re.compile("__main__|TYPE_CHECKING")
_REGISTERS = re.compile(r".*(regist|custom_op|impl).*")


@dataclass(frozen=True)
class Effect:
    """A statement that does something when its module is imported.

    `tree` is what it says, with the conditions that it stands under; `assigns` where it sets something of an
    installed `package`, and does not only call it.
    """

    shown: str
    tree: tuple[ast.expr | ast.stmt, ...]
    package: str
    assigns: bool

    @property
    def text(self) -> str:
        """What it says, written in one way."""
        return canonical(list(self.tree))

    @property
    def code(self) -> CodeType:
        """It, compiled."""
        body = [part if isinstance(part, ast.stmt) else ast.Expr(part) for part in self.tree]
        return compile(ast.fix_missing_locations(ast.Module(body, [])), "", "exec")


@dataclass(frozen=True)
class ModuleEffects:
    """The effects of a module that was looked at, and the modules of the user's that it imports.

    Attributes
    ----------
    is_read : bool
        Whether training reads anything in it; otherwise it is there because another one imports it.
    """

    effects: tuple[Effect, ...]
    imports: tuple[str, ...]
    is_read: bool


def effects_in(
    tree: ast.Module, names: Mapping[str, Any], is_users: Any, is_script: bool = False
) -> list[Effect]:
    """Return the effects of a module, in order.

    Of the calls in a script only those count that set or register something: the others may be about results.
    """
    return list(_Module(names, is_users, _SETS if is_script else None).effects(tree.body, ()))


def modules_imported(tree: ast.Module, package: str) -> list[str]:
    """Return the names of modules that statements at the top of a module may import."""
    found: list[str] = []
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            found += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for inner in _blocks(statement):
            yield from _statements(inner)


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of a compound statement that an import runs."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    if isinstance(statement, ast.If) and _NOT_ON_IMPORT.search(ast.unparse(statement.test)):
        is_negated = isinstance(statement.test, ast.UnaryOp) or "!=" in ast.unparse(statement.test)
        return [statement.body if is_negated else statement.orelse]
    if isinstance(statement, ast.Match):
        return [case.body for case in statement.cases]
    handlers = [handler.body for handler in getattr(statement, "handlers", ())]
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return [block for block in (*blocks, *handlers) if block]


class _Module:
    def __init__(self, names: Mapping[str, Any], is_users: Any, only: re.Pattern[str] | None) -> None:
        self._names = names
        self._is_users = is_users
        self._only = only

    def effects(self, body: list[ast.stmt], under: tuple[ast.expr, ...]) -> Iterator[Effect]:
        for statement in body:
            parts = (getattr(statement, name, None) for name in ("test", "iter", "subject"))
            heads = [part for part in parts if isinstance(part, ast.expr)]
            heads += [item.context_expr for item in getattr(statement, "items", ())]
            blocks = _blocks(statement)
            for block in blocks:
                yield from self.effects(block, (*under, *heads))
            if not blocks and (found := self._effect(statement)) is not None:
                package, assigns, tree = found
                yield Effect(ast.unparse(tree), (*under, tree), package, assigns)

    def _effect(self, statement: ast.stmt) -> tuple[str, bool, ast.stmt] | None:
        """Return the package that a statement reaches and whether it assigns there."""
        targets: list[ast.expr]
        match statement:
            case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
                for each in decorators:
                    called = each.func if isinstance(each, ast.Call) else each
                    if (package := self._called(called, _REGISTERS)) is not None:
                        return package, False, statement
                return None
            case ast.Assign(targets=found) | ast.Delete(targets=found):
                targets = list(found)
            case ast.AugAssign(target=only) | ast.AnnAssign(target=only):
                targets = [only]
            case ast.Expr(value=ast.Call(func=ast.Name("setattr" | "delattr"), args=[owner, *_])):
                return None if (package := self._owner(owner)) is None else (package, True, statement)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="set_option"), args=[ast.Constant(str(option)), *_])
            ) if _HARMLESS_PARTS.match(option):
                return None
            case ast.Expr(value=ast.Call() as call):
                package = self._called(call.func, self._only)
                return None if package is None else (package, False, statement)
            case _:
                return None
        for target in targets:
            if (package := self._assigned(target)) is not None:
                return package, True, statement
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Call) and (package := self._called(value.func, _SETS)) is not None:
            return package, False, statement
        return None

    def _assigned(self, target: ast.expr) -> str | None:
        """Return the package of whatever has an attribute or item assigned to; None for what counts not."""
        if isinstance(target, ast.Subscript) and ast.unparse(target.value).endswith("environ"):
            key = target.slice
            aside = isinstance(key, ast.Constant) and LEFT_ASIDE.fullmatch(str(key.value))
            return None if aside else "os"
        return self._owner(target.value) if isinstance(target, ast.Attribute | ast.Subscript) else None

    def _owner(self, node: ast.expr) -> str | None:
        """Return the package of a module, class or function of an installed package that is written."""
        package = self._package(self._resolved(node))
        return None if package in _HARMLESS_OWNERS else package

    def _called(self, node: ast.expr, only: re.Pattern[str] | None = None) -> str | None:
        """Return the package that a call is into; None where it cannot matter."""
        chain = ast.unparse(node)
        function, (through, _, last) = self._resolved(node), chain.rpartition(".")
        if isinstance(function, FunctionType) and self._is_users(function.__module__):
            return "" if only is None else None
        package = self._package(function)
        if package is None or package in _HARMLESS_PACKAGES or package in sys.stdlib_module_names:
            changes = chain.endswith(("environ.update", "environ.setdefault", "locale.setlocale"))
            return "os" if changes and only is None else None
        if only is not None and not only.fullmatch(chain if only is _REGISTERS else last):
            return None
        return None if _HARMLESS_CALLS.match(last) or _HARMLESS_PARTS.match(through) else package

    def _resolved(self, node: ast.expr) -> Any:
        """Follow a name through modules and classes; None where it leads through anything else."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Attribute(value=value, attr=attribute):
                owner = self._resolved(value)
                through = owner is not None and (
                    isinstance(owner, ModuleType | type) or self._package(owner) is not None
                )
                return getattr(owner, attribute, None) if through else None
            case _:
                return None

    def _package(self, value: object) -> str | None:
        """Return the installed package that defines a module, class or function; None of anything else."""
        if isinstance(value, ModuleType):
            name = value.__name__
        elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            owner = getattr(value, "__self__", None)
            name = getattr(value, "__module__", None) or getattr(owner, "__module__", None) or ""
            if isinstance(owner, type):
                name = owner.__module__
        else:
            kind = type(value).__module__
            name = kind if value is not None and kind.startswith(_OBJECTS) else ""
        return (
            None if not isinstance(name, str) or not name or self._is_users(name) else name.partition(".")[0]
        )
