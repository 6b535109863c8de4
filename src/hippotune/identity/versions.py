"""Versions of Python and of the libraries that training uses: torch, NumPy, adapters' and what it names."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Collection, Mapping

_LIBRARIES = ("numpy", "torch")
_ADAPTED = ("lightgbm", "lightning", "sklearn", "transformers", "xgboost")


def versions(imported: Collection[str] = ()) -> dict[str, str]:
    """Return the versions in use, of libraries that are loaded or that the training code imports."""
    found = {"python": platform.python_version()}
    adapted = [name for name in _ADAPTED if f"hippotune.adapters.{name}" in sys.modules]
    used = {name for name in imported if name not in sys.stdlib_module_names and name != "hippotune"}
    for name in sorted({*_LIBRARIES, *adapted, *used}):
        loaded = getattr(sys.modules.get(name), "__version__", None)
        if loaded is None and name in imported:
            try:
                loaded = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        if isinstance(loaded, str):
            found[name] = _release(str(loaded))
    return found


def changed_versions(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what has another version now, each as ``torch 2.12.0 -> 2.13.0``."""
    return [
        f"{name} {before[name]} -> {now[name]}"
        for name in sorted(before.keys() & now.keys())
        if before[name] != now[name]
    ]


def _release(version: str) -> str:
    """Return major, minor and micro version, without what says how it was built."""
    found = re.match(r"\d+(\.\d+){0,2}", version)
    return found[0] if found else version
