"""Whether a worker, which imports the user's modules anew, finds the trainer that the study was keyed by.

It does not where a script has set a module's global after the import, where a file was edited meanwhile, or
where a node has other environment variables. What was sent by value is the same by itself.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Collection, Mapping

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import fingerprint
from hippotune.identity.parts import differences, is_compiled, is_effect, linked_to

_NAMES = re.compile(r"(?:module )?([\w.]+)")


def changes_by_import(trainer: type, expected: Mapping[str, str], by_value: Collection[str]) -> list[str]:
    """Return what differs here from `expected`, the parts of the trainer's fingerprint, to be read.

    Of modules that came `by_value`, nothing is compared; of others everything is, also what one side lacks.
    Where a side has no source, not all is read there: then what it lacks counts only if its module has no
    such name.
    """
    if not expected:
        return []
    try:
        found = fingerprint(trainer).parts
    except TrainerError:
        return []  # some of it means nothing here; what does is not known
    has_source = not any(map(is_compiled, (*expected.values(), *found.values())))
    imported = trainer.__module__ not in by_value

    def compared(name: str) -> bool:
        if is_effect(name):
            return False
        sides = [linked_to(name, side) for side in (expected, found)]
        module = _module_of(name)
        if None in sides and not has_source and not (module and _lacks(module, name)):
            return False
        if any(side is not None and is_compiled(side) for side in sides):
            return False
        if imported or name.startswith("$"):
            return True
        return module is not None and module not in by_value

    names = [name for name in {**expected, **found} if compared(name)]
    before, now = (
        {name: text for name in names if (text := linked_to(name, side)) is not None}
        for side in (expected, found)
    )
    return differences(before, now)


def _module_of(name: str) -> str | None:
    """Return the module that a part is of; None where it is not loaded here, or is the trainer's own."""
    match = _NAMES.match(name)
    words = match[1].split(".") if match else []
    if name.startswith("module "):
        return match[1] if match and match[1] in sys.modules else None
    for end in range(len(words) - 1, 0, -1):
        module = ".".join(words[:end])
        if module in sys.modules:
            return None if _is_module(f"{module}.{words[end]}") else module
    return None


def _lacks(module: str, name: str) -> bool:
    """Whether a module that is loaded here has no such name."""
    return not hasattr(
        sys.modules[module], name.removeprefix(f"{module}.").partition(".")[0].partition(" ")[0]
    )


def _is_module(name: str) -> bool:
    """Whether a name is that of a module that is not loaded here."""
    try:
        return name not in sys.modules and importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False
