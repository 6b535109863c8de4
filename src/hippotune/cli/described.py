"""A study described in TOML: a trainer by its name, a space, a tuner, and an executor.

    trainer = "digits.py:Digits"       # a file beside this one, or a module: "package.module:Digits"

    [space]
    lr = [0.1, "MultiStep(0.1, [60], 0.1)", "Warmup(5, Cosine(0.1, 115))"]
    bs = [64, 128]

    [tuner]
    kind = "SuccessiveHalving"
    metric = "val_acc"
    mode = "max"
    min_steps = 15
    max_steps = 120

    [executor]
    kind = "Local"
    workers = 2

All else at the top (name, home, seed, settings, …) are arguments of the study. Text that calls a sequence or
a distribution by its name is that; nothing else in it is ever run.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hippotune as hippo
from hippotune.cli.script import ScriptError, run_file
from hippotune.errors import HippoError, InvalidInput
from hippotune.short import listed
from hippotune.tuners.described import called, described_tuner, made

if TYPE_CHECKING:
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner

_TABLES = ("space", "tuner", "executor")
_EXECUTORS = {"Local", "Ray", "Simulated"}


def described(path: Path) -> tuple[Study, Tuner]:
    """Read a study and its tuner."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from None
    try:
        return _study_of(path, content)
    except HippoError as error:
        raise InvalidInput(f"{path}: {error}") from error


def _study_of(path: Path, content: dict[str, Any]) -> tuple[Study, Tuner]:
    known = [*inspect.signature(hippo.Study).parameters, *_TABLES]
    if unknown := content.keys() - known:
        raise InvalidInput(f"{listed(unknown)} is unknown; expected {', '.join(dict.fromkeys(known))}")
    for name, kind in (("trainer", str), ("space", dict), ("tuner", dict)):
        if not isinstance(content.get(name), kind):
            expected = "a name, as digits.py:Digits" if kind is str else f"a table, [{name}]"
            raise InvalidInput(f"{name} is {content.get(name)!r}; expected {expected}")
    trainer = _trainer(content.pop("trainer"), path.parent)
    tuner = described_tuner({name: content.pop(name) for name in ("space", "tuner")})
    executor = content.pop("executor", None)
    if executor is not None:
        content["executor"] = made("executor", executor, _EXECUTORS)
    study = called("the study", hippo.Study, {"name": path.stem, **content}, trainer=trainer)
    return study, tuner


def _trainer(text: str, folder: Path) -> Any:
    module, _, name = text.rpartition(":")
    if not module or not name:
        raise InvalidInput(f"trainer is {text!r}; expected file.py:Class, or package.module:Class")
    if module.endswith(".py"):
        if not (folder / module).is_file():
            raise InvalidInput(f"trainer is {text!r}, and there is no file {folder / module}")
        found = run_file(folder / module)
    else:
        sys.path.insert(0, str(folder.resolve()))
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise InvalidInput(f"trainer is {text!r}, and {module} cannot be imported: {error}") from error
        except Exception as error:
            raise ScriptError(traceback.format_exc().rstrip()) from error
    if not hasattr(found, name):
        raise InvalidInput(f"trainer is {text!r}, and there is no {name} in {module}")
    return getattr(found, name)
