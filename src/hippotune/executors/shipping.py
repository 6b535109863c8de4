"""How a trainer gets into another process, without running the user's script there.

What the other process can import is sent as a name; the module search path goes with it. What it cannot
import (classes of a script, a notebook, or a file that was loaded by its path) is sent as code. Such classes
are then put where their names say they are, so that checkpoints can refer to them by name.
"""

from __future__ import annotations

import functools
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from hippotune.errors import TrainerError
from hippotune.executors.base import Job, Parcel
from hippotune.executors.worker.wide import Part
from hippotune.identity.again import changes_by_import
from hippotune.identity.parts import shown
from hippotune.identity.process import changed_settings, differing_settings
from hippotune.protocol.commands import ExecutorCommand
from hippotune.trainers.base import Trainer
from hippotune.trainers.state.functions import SHIPPED, reduce_module

_CACHED = type(functools.lru_cache(len))


def pack(job: Job) -> Parcel:
    """Make a job ready for shipping; `TrainerError` where it cannot be."""
    plain = replace(job, trainer=None, parcel=None, fits=None)
    parcel = wrap(job.opened, job.process) if job.parcel is None else job.parcel
    return replace(parcel, job=plain)


def wrap(trainer: type[Trainer], process: Mapping[str, str] | None = None) -> Parcel:
    """Make a trainer ready for shipping; `TrainerError` where it cannot be.

    `process` are the settings that workers must have too; None stands for those of this thread.
    """
    import cloudpickle

    name = f"{trainer.__module__}.{trainer.__qualname__}"
    modules = {base.__module__ for base in trainer.__mro__}
    by_value = tuple(sorted(module for module in modules if not is_importable(module)))
    for module in by_value:
        if module in sys.modules and module != "__main__":
            cloudpickle.register_pickle_by_value(sys.modules[module])
    try:
        content = dumped(trainer, by_value)
    except Exception as error:
        raise TrainerError(
            f"trainer {name} cannot be sent to worker processes: {type(error).__name__}: {error}. "
            "It, or something that it uses from its module, cannot be pickled; "
            "make such things in build(), which runs in every worker"
        ) from error
    settings = tuple(sorted((changed_settings() if process is None else process).items()))
    return Parcel(name, content, "", by_value, tuple(sys.path), tuple(sys.argv), process=settings)


def dumped(value: object, by_value: Sequence[str], is_there: Callable[[str], bool] = lambda _: True) -> bytes:
    """Pickle a value; cached functions of modules that go by value are cached anew in the other process.

    Classes and functions of modules that the other process does not have go by value too.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, type | types.FunctionType):
                module = sys.modules.get(value.__module__)
                if module is not None and not is_there(module.__name__):
                    cloudpickle.register_pickle_by_value(module)
            if isinstance(value, types.ModuleType) and type(value) is not types.ModuleType:
                return reduce_module(value) or NotImplemented
            if isinstance(value, _CACHED) and value.__module__ in by_value:
                return _cached, (value.__wrapped__, value.cache_parameters())
            if isinstance(value, functools.cached_property):
                held = {name: each for name, each in vars(value).items() if name not in ("func", "lock")}
                return _cached_property, (type(value), value.func, held)
            return super().reducer_override(value)

    file = io.BytesIO()
    Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _cached_property(kind: Any, function: Any, held: dict[str, Any]) -> Any:
    made = kind.__new__(kind)
    functools.cached_property.__init__(made, function)  # up to Python 3.11 it makes a lock
    vars(made).update(held)
    return made


def unpack(parcel: Parcel) -> Job:
    """Take a job out of its parcel, in the process that it was sent to."""
    sys.path[:] = parcel.path
    sys.argv[:] = parcel.arguments
    try:
        trainer = _imported(parcel.entry) if parcel.entry else pickle.loads(parcel.content)
    except Exception as error:
        raise TrainerError(
            f"trainer {parcel.trainer} cannot be loaded in a worker: {type(error).__name__}: {error}. "
            "Workers import modules from where this process does; a module that exists only in memory, "
            "or that fails when it is imported again, cannot be used by a trainer"
        ) from error
    if not isinstance(trainer, type) or not issubclass(trainer, Trainer):
        raise TrainerError(f"{parcel.trainer} is {trainer!r}; expected a class that extends hippo.Trainer")
    for name in parcel.by_value:
        _publish(name, trainer)
    job = replace(parcel.job or Job(None), trainer=trainer)
    if changes := changes_by_import(trainer, job.code, parcel.by_value):
        raise TrainerError(
            f"trainer {parcel.trainer} is another one in workers, which import its modules anew: "
            f"{shown(changes)}. Restart after edits of a file; pass values that are set after an import as "
            "settings=, or set them where the module itself does"
        )
    if job.code:
        refuse_other_settings(parcel)
    return job


def refuse_other_settings(parcel: Parcel) -> None:
    """Raise where this process has not the settings that a parcel was sent with."""
    if parcel.process is not None and (changes := differing_settings(dict(parcel.process))):
        raise TrainerError(
            "workers do not have the settings of the process that the study was started in: "
            f"{shown(changes)}. They import modules and do not run your script: set it in build() or "
            "prepare(), or where a module is imported that the trainer uses"
        )


def _imported(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def encode(command: ExecutorCommand | Part) -> bytes:
    """Return a message for a worker. A config may hold a function that is found only where it was made."""
    import cloudpickle

    message: bytes
    try:
        message = pickle.dumps(command, protocol=5)  # three times as quick, and nearly always enough
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    else:
        only_here = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
        if not any(name.encode() in message for name in only_here):
            return message
    message = cloudpickle.dumps(command, protocol=5)
    return message


def is_importable(name: str) -> bool:
    """Whether a fresh process with the same search path would get this very module by its name."""
    module = sys.modules.get(name)
    if module is None or name == "__main__" or (spec := _find(name)) is None:
        return False
    file: str | None = getattr(module, "__file__", None)
    if spec.origin is None:  # a package without a file of its own
        return file is None
    if not spec.has_location:  # part of the interpreter
        return True
    return file is not None and Path(file).resolve() == Path(spec.origin).resolve()


def _find(name: str) -> ModuleSpec | None:
    """Look a module up as an import would, but never in `sys.modules`, where any code may have put it."""
    package, _, _ = name.rpartition(".")
    path = getattr(sys.modules.get(package), "__path__", None)
    if package and (path is None or not is_importable(package)):
        return None
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


def _publish(name: str, trainer: type) -> None:
    """Give what came by value the module that it says it is of, and that its packages."""
    from cloudpickle.cloudpickle import _DYNAMIC_CLASS_TRACKER_BY_CLASS

    package = name.rpartition(".")[0]
    while package and package not in sys.modules and _find(package) is None:
        sys.modules[package] = types.ModuleType(package)
        package = package.rpartition(".")[0]
    module = sys.modules[name] = types.ModuleType(name)
    for base in trainer.__mro__:
        if base.__module__ == name:
            vars(module)[base.__name__] = base
            for function in _functions(base):
                known = SHIPPED[name] = function.__globals__
                vars(module).update({key: value for key, value in known.items() if not key.startswith("__")})
    for cls in list(_DYNAMIC_CLASS_TRACKER_BY_CLASS):  # also those that no function names
        if cls.__module__ == name and cls.__qualname__ == cls.__name__:
            vars(module).setdefault(cls.__name__, cls)


def _functions(cls: type) -> Iterator[types.FunctionType]:
    for member in vars(cls).values():
        plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if isinstance(plain, types.FunctionType):
            yield plain
