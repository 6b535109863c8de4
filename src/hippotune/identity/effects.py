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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

from hippotune.identity.on_import import blocks, modules_imported, with_packages
from hippotune.identity.source import Source, canonical
from hippotune.identity.surroundings import LEFT_ASIDE

_HARMLESS_CALLS = re.compile(
    r".*(seed|print|verbos|warn|logg|log_|download|login|thread|sharing|start_method|empty_cache"
    r"|style|theme|display|progress|set_device|deterministic|freeze|cache_dir|set_dir).*",
    re.IGNORECASE,
)
_HARMLESS_PARTS = re.compile(r".*(logg|warning|display|style|theme).*", re.IGNORECASE)
_HARMLESS_PACKAGES = {
    "absl", "dotenv", "hippotune", "hydra", "IPython", "matplotlib", "mlflow", "plotly", "pytest", "ray",
    "rich", "seaborn", "tqdm", "wandb",
}  # fmt: skip
_HARMLESS_OWNERS = {"logging", "matplotlib", "pytest", "ssl", "sys", "warnings"}
_SETS = re.compile(r"(set|register|enable|disable|use)_.*|register|update")
# Objects with the settings of a package.
_OBJECTS = ("torch.backends", "jax._src.config", "pandas._config")
# Options of pandas that change results; the others are about what is shown.
_CHANGES = re.compile(r"mode|compute|future|copy_on_write|string|numexpr|bottleneck|numba|inf_as_na")
_REGISTERS = re.compile(r".*(regist|custom_op|impl).*")


@dataclass(frozen=True)
class Effect:
    """A statement that does something when its module is imported.

    `tree` is what it says, with the conditions that it stands under; `reached` what it calls or assigns to.
    `assigns` where it sets something of an installed `package`, and does not only call it.
    """

    shown: str
    tree: tuple[ast.AST, ...]
    package: str
    assigns: bool
    reached: str

    @property
    def text(self) -> str:
        """What it says, written in one way."""
        return canonical(list(self.tree))

    @property
    def code(self) -> CodeType:
        """It, compiled."""
        parts = [part for part in self.tree if isinstance(part, ast.expr | ast.stmt)]
        patterns = [part for part in self.tree if isinstance(part, ast.pattern)]
        parts += [each for part in patterns for each in ast.walk(part) if isinstance(each, ast.expr)]
        body = [part if isinstance(part, ast.stmt) else ast.Expr(part) for part in parts]
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


def module_effects(
    name: str, source: Source, is_users: Callable[[object], bool], is_read: bool, only_settings: bool
) -> ModuleEffects | None:
    """Return what an imported module does at its top, and what it imports; None where it has no source.

    With `only_settings` only those calls count that set or register something: the others may be about
    results, as in a script.
    """
    module = sys.modules.get(name) if is_users(name) else None
    tree = None if module is None else source.module_tree(module)
    if module is None or tree is None:
        return None
    found = _Module(vars(module), is_users, _SETS if only_settings else None).effects(tree.body, ())
    within = modules_imported(tree, vars(module).get("__package__") or "")
    before = with_packages(name)[:-1]
    imports = dict.fromkeys(each for each in (*before, *within) if each in sys.modules and is_users(each))
    return ModuleEffects(tuple(found), tuple(imports), is_read)


def _calls(value: ast.AST | None) -> Iterator[ast.Call]:
    """Yield the calls that an expression makes by itself, and not in a function that it defines."""
    if value is None or isinstance(value, ast.Lambda):
        return
    if isinstance(value, ast.Call):
        yield value
    for inner in ast.iter_child_nodes(value):
        yield from _calls(inner)


class _Module:
    def __init__(self, names: Mapping[str, Any], is_users: Any, only: re.Pattern[str] | None) -> None:
        self._names = names
        self._is_users = is_users
        self._only = only

    def effects(self, body: list[ast.stmt], under: tuple[ast.AST, ...]) -> Iterator[Effect]:
        for statement in body:
            inner = blocks(statement)
            for heads, block in inner:
                yield from self.effects(block, (*under, *heads))
            if not inner or isinstance(statement, ast.ClassDef):
                for package, assigns, reached in islice(self._found(statement), 1):
                    yield Effect(ast.unparse(statement), (*under, statement), package, assigns, reached)

    def _found(self, statement: ast.stmt) -> Iterator[tuple[str, bool, str]]:
        """Yield the packages that a statement reaches, whether it assigns there, and to or by what."""
        targets: list[ast.expr] = []
        match statement:
            case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
                for each in decorators:
                    called = each.func if isinstance(each, ast.Call) else each
                    if (package := self._called(called, _REGISTERS)) is not None:
                        yield package, False, ast.unparse(called)
                return
            case ast.Assign(targets=several) | ast.Delete(targets=several):
                targets = several
            case ast.AugAssign(target=only) | ast.AnnAssign(target=only):
                targets = [only]
            case ast.Expr():
                pass
            case _:
                return
        for target in targets:
            if (package := self._assigned(target)) is not None:
                yield package, True, ast.unparse(target)
        value = getattr(statement, "value", None)
        whole = value if isinstance(statement, ast.Expr) else None
        for call in _calls(value):
            match call:
                case ast.Call(func=ast.Name("setattr" | "delattr"), args=[owner, *name]):
                    if (package := self._owner(owner)) is not None:
                        yield package, True, ".".join(map(ast.unparse, [owner, *name[:1]]))
                case ast.Call(func=ast.Name("exec" | "eval" as function)) if call is whole:
                    yield "", False, function
                case ast.Call() if not self._only_shows(call):
                    counts = self._only if call is whole else _SETS
                    if (package := self._called(call.func, counts)) is not None:
                        yield package, False, ast.unparse(call.func)

    def _assigned(self, target: ast.expr) -> str | None:
        """Return the package that an attribute or item is assigned in; None where it cannot matter."""
        if isinstance(target, ast.Subscript) and ast.unparse(target.value).endswith("environ"):
            key = target.slice
            aside = isinstance(key, ast.Constant) and LEFT_ASIDE.fullmatch(str(key.value))
            return None if aside else "os"
        return self._owner(target.value) if isinstance(target, ast.Attribute | ast.Subscript) else None

    def _owner(self, node: ast.expr) -> str | None:
        """Return the package of a module, class or function of an installed package that is written."""
        package, chain = self._package(self._resolved(node)), ast.unparse(node)
        only_shows = package == "pandas" and ".options." in chain and not _CHANGES.search(chain)
        return None if only_shows or package in _HARMLESS_OWNERS else package

    def _only_shows(self, call: ast.Call) -> bool:
        """Whether a call sets options of a library that say how something is shown."""
        match self._package(self._resolved(call.func)), ast.unparse(call.func).rpartition(".")[2]:
            case "pandas", "set_option":
                return not any(_CHANGES.search(ast.unparse(each)) for each in call.args[::2])
            case "sklearn", "set_config":
                return {each.arg for each in call.keywords} <= {"display", "print_changed_only"}
        return False

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
