"""Settings of libraries that are not what a fresh process has, and hooks of all modules of torch.

A worker does not run the user's script, so that what the script sets has no effect there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hippotune.identity.library_settings import unusual, usual

_MODULES = "torch.nn.modules.module"
_HOOKS = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_parameter_registration_hooks",
    "_global_module_registration_hooks",
    "_global_buffer_registration_hooks",
)


_set_by_trainers: set[str] = set()


@contextmanager
def running_trainer() -> Iterator[None]:
    """Leave aside from then on what the user's trainer sets in the block: it sets that in workers too."""
    before = changed_settings()
    try:
        yield
    finally:
        after = changed_settings()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        _set_by_trainers.update(changed)


def changed_settings() -> dict[str, str]:
    """Return the settings that are not what a fresh process has, by name."""
    found = {name: str(value) for name, value in unusual().items()}
    for name, hooks in _hooks(sys.modules.get(_MODULES)):
        found[f"{_MODULES}.{name}"] = hooks
    return {name: text for name, text in found.items() if name not in _set_by_trainers}


def differing_settings(sent: Mapping[str, str]) -> list[str]:
    """Return what differs here from what a sender has, for a person to read."""
    here = changed_settings()
    return [
        f"{name}: {sent.get(name, before)} -> {here.get(name, before)}"
        for name in sorted(sent.keys() | here.keys())
        if sent.get(name) != here.get(name)
        for before in [usual(name)]
    ]


def _hooks(module: Any) -> Iterator[tuple[str, str]]:
    for name in _HOOKS:
        if hooks := getattr(module, name, None):
            yield (
                name,
                ", ".join(getattr(each, "__qualname__", type(each).__name__) for each in hooks.values()),
            )
