"""What trials of a process start in, beside their own state: settings of libraries, and the working folder.

They belong to a trial's state, as random generators do: a trial from scratch starts with those that prepare()
left, and a checkpoint of a whole object holds those of its trial.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from hippotune.identity.library_settings import Settings, capture, restore


class Surroundings:
    """What trials of this process start in: settings, and the working folder.

    Modules are imported once in a process, so that what they set belongs here, whichever trial imports them.
    """

    def __init__(self) -> None:
        self._settings = capture()
        self._folder = _working_folder()

    def put_back(self) -> None:
        """Put the settings and the working folder back to where they were before any trial."""
        restore(self._settings)
        if self._folder is not None and _working_folder() != self._folder:
            with suppress(OSError):  # it is gone, and was where this process is
                os.chdir(self._folder)

    @contextmanager
    def following_imports(self) -> Iterator[Settings]:
        """Take over what modules set that are imported in the block; yield that, as far as it is known."""
        follower = _ImportFollower(self._settings)
        sys.meta_path.insert(0, follower)
        try:
            yield follower.found
        finally:
            sys.meta_path.remove(follower)


class _ImportFollower(MetaPathFinder):
    """Finds modules as the other finders do, and adds to `settings` those that one changes when it is run."""

    def __init__(self, settings: Settings) -> None:
        self.found: Settings = {}
        self._settings = settings
        self._is_inside = False

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if self._is_inside:  # what a module imports is a part of its own import
            return None
        try:
            others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        except ValueError:  # another thread imports while the block ends
            return None
        finders = (each.find_spec for each in others if hasattr(each, "find_spec"))
        spec = next((spec for find in finders if (spec := find(name, path, target)) is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module") and hasattr(spec.loader, "__dict__"):
            loader: Any = spec.loader
            if not isinstance(loader, type):
                loader.exec_module = partial(self._run, loader, loader.exec_module)
        return spec

    def _run(self, loader: Any, run: Callable[[ModuleType], None], module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        before, self._is_inside = capture(), True
        try:
            run(module)
        finally:
            self._is_inside = False
            changed = {name: value for name, value in capture().items() if before.get(name, ...) != value}
            self.found |= changed
            self._settings |= changed


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None
