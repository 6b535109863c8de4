"""The user's file: loaded as a module of its own, so that what it defines can be sent to workers.

The module's name is one that no import finds. So workers get the classes of the file as code, and the file
itself, with all that it does, is run once, here. It is not ``__main__``: what a file does only when it is run
by itself (``if __name__ == "__main__": study.tune(tuner)``) is left to the command.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from hippotune.errors import HippoError, InvalidInput
from hippotune.identity.ownership import SCRIPT_PREFIX

if TYPE_CHECKING:
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner


_NAMES = str(Path(__file__).parents[1] / "__init__.py")


class ScriptError(Exception):
    """The user's file raised; the message is its traceback."""


@dataclass(frozen=True, slots=True)
class Script:
    """A file's study and tuner; `command` are the arguments that name it again."""

    file: str
    command: tuple[str, ...]
    study: Study
    tuner: Tuner


def load(given: str, rest: Sequence[str] = (), is_module: bool = False) -> Script:
    """Run the file or the module that a command names, with its own arguments, and take what it defines.

    From here on ``sys.argv`` is the file's: training may read it, here and in workers.
    """
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner

    command = (*(["-m"] if is_module else []), given, *(["--", *rest] if rest else []))
    if not is_module and given.endswith(".toml"):
        from hippotune.cli.described import described

        _refuse_arguments(given, rest)
        return Script(given, command, *described(_checked(Path(given))))
    names = vars(run_module(given, rest) if is_module else run_file(_checked(Path(given)), rest))
    study, tuner = names.get("study"), names.get("tuner")
    missing = [name for name in ("study", "tuner") if name not in names]
    if missing:
        raise InvalidInput(
            f"{given} defines no {' and no '.join(f'`{name}`' for name in missing)}; expected at its top "
            "level: study = hippo.Study(...) and tuner = a tuner, such as hippo.SuccessiveHalving(...)"
        )
    if not isinstance(study, Study):
        raise InvalidInput(f"`study` in {given} is {study!r}; expected a hippo.Study")
    if not isinstance(tuner, Tuner):
        raise InvalidInput(
            f"`tuner` in {given} is {tuner!r}; expected a tuner, such as hippo.SuccessiveHalving(...)"
        )
    return Script(given, command, study, tuner)


def _checked(path: Path) -> Path:
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidInput(f"{path} {what}; expected a Python or TOML file that defines a study and a tuner")
    return path


def _refuse_arguments(given: str, rest: Sequence[str]) -> None:
    if rest:
        raise InvalidInput(
            f"{given} takes no arguments; got {' '.join(rest)}. Write them into it, as settings"
        )


def run_file(path: Path, arguments: Sequence[str] = ()) -> ModuleType:
    """Run a file as a module of its own; what lies beside it can be imported."""
    file = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(file))
    try:
        return _run(SCRIPT_PREFIX + re.sub(r"\W", "_", path.stem), file, str(path), arguments)
    except ScriptError as error:
        if not str(error.__cause__).endswith("relative import with no known parent package"):
            raise
        raise ScriptError(
            f"{error}\nhippo: a file has no package to import from; name it as a module instead, from the "
            f"folder of its package: -m PACKAGE.{path.stem}"
        ) from error


def run_module(name: str, arguments: Sequence[str] = ()) -> ModuleType:
    """Run a module of a package, as ``python -m`` does: with relative imports, from the present folder."""
    sys.path.insert(0, os.getcwd())
    spec, why = None, ""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError) as error:
        why = f" ({error})"
    if spec is not None and spec.submodule_search_locations is not None:
        return run_module(f"{name}.__main__", arguments)
    if spec is None or spec.origin is None or not spec.has_location:
        if name.endswith(".__main__") and not why:
            package = name.removesuffix(".__main__")
            raise InvalidInput(
                f"{package} is a package without a __main__.py; expected a module of it: -m {package}.MODULE"
            )
        raise InvalidInput(
            f"no module {name} is found from {os.getcwd()}; expected a name as package.module, without .py"
            f"{why}"
        )
    package, _, last = name.rpartition(".")
    return _run(
        f"{package}.{SCRIPT_PREFIX}{last}" if package else SCRIPT_PREFIX + last, spec.origin, name, arguments
    )


def _run(name: str, file: str, shown: str, arguments: Sequence[str]) -> ModuleType:
    import cloudpickle

    loader = SourceFileLoader(name, file)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    cloudpickle.register_pickle_by_value(module)  # functions in configs too, wherever the trainer is from
    sys.argv = [file, *arguments]
    try:
        # Without `loader.exec_module`, which would leave compiled code beside the file.
        exec(loader.source_to_code(loader.get_data(file), file), vars(module))
    except HippoError as error:
        place = _from_file(error.__traceback__, file)
        where = f"{shown}, line {place.tb_lineno}" if place else shown
        raise InvalidInput(f"{where}: {error}") from error
    except Exception as error:
        trace = traceback.TracebackException(type(error), error, _from_file(error.__traceback__, file))
        if trace.stack and trace.stack[-1].filename == _NAMES:  # a name that Hippo does not have
            trace.stack.pop()
        raise ScriptError("".join(trace.format()).rstrip()) from error
    return module


def _from_file(trace: TracebackType | None, file: str) -> TracebackType | None:
    """Return a traceback from the file's first frame on; None where there is none, as in a syntax error."""
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    return trace
