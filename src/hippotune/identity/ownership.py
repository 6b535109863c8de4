"""Whose code a module is: the user's own, or of an installed package. Only the user's own is read."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
from pathlib import PurePath

SCRIPT_PREFIX = "hippo_file_"
"""Begins the name of the module that a command makes of the user's file."""


def is_script(module: object) -> bool:
    """Whether a module is the user's file, which is run by itself or by a command."""
    return module == "__main__" or str(module).rpartition(".")[2].startswith(SCRIPT_PREFIX)


def is_users(module: object, home: str) -> bool:
    """Tell the user's code, and code installed along with the trainer's module `home`, from others'."""
    if not isinstance(module, str) or not module:
        return False
    top = module.partition(".")[0]
    if top == "hippotune":
        return False
    if top in ("__main__", home.partition(".")[0]):
        return True
    return not _is_installed(top)


@functools.cache
def _is_installed(top: str) -> bool:
    """Whether a top-level module is built in, of the standard library or of an installed package."""
    if top in sys.stdlib_module_names:
        return True
    loaded = sys.modules.get(top)
    try:
        spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        spec = None
    own = {} if loaded is None else vars(loaded)  # a module's __getattr__ may answer for any name
    folders = [own.get("__file__"), *own.get("__path__", ())]
    if spec is not None:
        folders += [spec.origin if spec.has_location else None, *(spec.submodule_search_locations or ())]
    places = [os.path.realpath(folder) for folder in folders if folder]
    return not places or any(is_below_installed(place) for place in places)


def is_below_installed(place: str) -> bool:
    """Whether a file is of the standard library or of an installed package."""
    parts = PurePath(place).parts
    stdlib = os.path.realpath(sysconfig.get_path("stdlib"))
    return "site-packages" in parts or "dist-packages" in parts or place.startswith(stdlib + os.sep)
