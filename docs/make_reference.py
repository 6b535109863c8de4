"""Writes docs/reference.md and docs/openapi.json from the code: ``python docs/make_reference.py``."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from types import FunctionType

import hippotune as hippo

PAGE = Path(__file__).with_name("reference.md")
API = Path(__file__).with_name("openapi.json")
GROUPS = {
    "Studies": ("Study", "tune_together", "Retries", "Callback"),
    "Trainers": ("Trainer", "TorchTrainer", "Loader"),
    "Executors": ("Local", "Pool", "Ray", "Simulated", "Recorded"),
    "Width": ("Fluid",),
    "Sequences": tuple(name for name, home in hippo._MODULES.items() if home == "hippotune.sequences"),
    "Spaces": tuple(name for name, home in hippo._MODULES.items() if home == "hippotune.spaces"),
    "Tuners": tuple(name for name, home in hippo._MODULES.items() if home == "hippotune.tuners"),
    "Errors": tuple(name for name, home in hippo._MODULES.items() if home == "hippotune.errors"),
}


def page() -> str:
    """Return the page."""
    parts = [
        "# Reference",
        "Every public name, with the first sentence of its docstring; `help(hippo.Study)` shows the rest. "
        "Made by `python docs/make_reference.py`.",
        "```python\nimport hippotune as hippo\n```",
    ]
    for title, names in GROUPS.items():
        parts += [f"## {title}", _table({f"hippo.{name}": getattr(hippo, name) for name in names})]
        for name in names:
            if title in ("Studies", "Trainers") and inspect.isclass(found := getattr(hippo, name)):
                parts += [f"### `hippo.{name}`", _table(_methods(found))]
    parts += ["## Submodules", "What studies seldom name, but tuners, executors and reports are made of."]
    for name in hippo.SUBMODULES:
        module = importlib.import_module(f"hippotune.{name}")
        public = getattr(module, "__all__", None) or [each for each in vars(module) if _is_own(module, each)]
        others = [each for each in sorted(public) if each not in hippo.__all__]
        parts += [f"### `hippo.{name}`", _summary(module)]
        if others:
            parts.append(_table({f"hippo.{name}.{each}": getattr(module, each) for each in others}))
    return "\n\n".join(parts) + "\n"


def api() -> str:
    """Return the OpenAPI document of the server."""
    from hippotune.serve.app import document_of_all

    return json.dumps(document_of_all(), indent=1) + "\n"


def _is_own(module: object, name: str) -> bool:
    found = getattr(module, name)
    own = getattr(found, "__module__", None) == getattr(module, "__name__", None)
    return own and not name.startswith("_")


def _methods(cls: type) -> dict[str, object]:
    own = {name: value for base in reversed(cls.__mro__[:-1]) for name, value in vars(base).items()}
    kinds = (FunctionType, property, classmethod, staticmethod)
    return {
        name: value for name, value in own.items() if not name.startswith("_") and isinstance(value, kinds)
    }


def _table(names: dict[str, object]) -> str:
    rows = [f"| `{name}` | {_summary(value)} |" for name, value in names.items()]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _summary(value: object) -> str:
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
    API.write_text(api())
