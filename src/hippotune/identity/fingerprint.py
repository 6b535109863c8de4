"""A fingerprint of training code: another one where training could come out differently, the same otherwise.

It covers the trainer's class, its bases, and everything that their code reads by name, to any depth, as it is
now: the user's own functions and classes by their syntax trees, default arguments, closures and attributes;
all other values by content; of an `argparse.Namespace` the attributes that are read; arguments of the program
and environment variables where code reads them. What cannot be identified is a
`TrainerError` that names it. A search space, tuner or study in the same file is not read by
training, so editing it changes nothing; nor do comments, docstrings and layout.

It is the same in every process and on every machine: no paths, ids, line numbers or set orders go into it.
Where there is no source (some consoles), compiled code stands in for it; where several lambdas share a line,
it tells which of them is meant.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hippotune.errors import TrainerError
from hippotune.identity.effects import ModuleEffects, module_effects
from hippotune.identity.members import module_of
from hippotune.identity.ownership import is_below_installed, is_script, is_users
from hippotune.identity.parts import digest
from hippotune.identity.reading import Reading
from hippotune.identity.source import Source
from hippotune.identity.values import Unidentified


@dataclass(frozen=True)
class Fingerprint:
    """What training code is.

    Attributes
    ----------
    digest : str
        32 hexadecimal digits.
    parts : Mapping[str, str]
        What it consists of: short texts by name.
    imports : frozenset[str]
        The installed packages that the code uses by itself.
    modules : Mapping[str, ModuleEffects]
        The modules of the user's that the code is in, and those that they import.
    """

    digest: str
    parts: Mapping[str, str]
    imports: frozenset[str]
    modules: Mapping[str, ModuleEffects] = field(default_factory=dict, compare=False)


def fingerprint(trainer: type) -> Fingerprint:
    """Return the fingerprint of a trainer's code, as it is now."""
    reading = Reading(trainer.__module__)
    reading.named(trainer)
    return Fingerprint(
        reading.record.digest, reading.record.parts, frozenset(reading.packages), reading.modules
    )


def parts_read(trainer: type) -> Mapping[str, str]:
    """Return what a trainer's code consists of, as it is now, without what modules did at their top."""
    reading = Reading(trainer.__module__, with_effects=False)
    reading.named(trainer)
    return reading.record.parts


def around_scripts(home: str) -> dict[str, ModuleEffects]:
    """Return the scripts that run in this process, with the modules of the user's that they import."""
    found: dict[str, ModuleEffects] = {}
    source, pending = Source(), [name for name in list(sys.modules) if is_script(name)]
    while pending:
        name = pending.pop()
        if name in found or is_below_installed(file_of(name)):
            continue
        effects = module_effects(name, source, lambda each: is_users(each, home), False, only_settings=True)
        if effects is not None:
            found[name] = effects
            pending += effects.imports
    return found


def file_of(module: str) -> str:
    """Return the file of a module, where it has one; without asking it, which may load it."""
    file = vars(sys.modules[module]).get("__file__") if module in sys.modules else None
    return os.path.realpath(file) if isinstance(file, str) else ""


def fingerprint_of_function(function: Any) -> str:
    """Return 16 hexadecimal digits for a function and all that it reads; of a library's, for its name."""
    module = module_of(function)
    reading = Reading("__main__" if is_below_installed(file_of(module)) else module, with_effects=False)
    reading.read("the function", function)
    return reading.record.digest[:16]


def parts_of_object(value: object) -> dict[str, str]:
    """Return what an object is, by name: its class, the user's own code that this reads, its attributes.

    An attribute that cannot be identified counts as it is pickled, or else by its class.
    """
    reading = Reading(type(value).__module__, with_effects=False)
    try:
        reading.add_text("class", reading.writer.name_of(type(value)))
    except TrainerError:
        reading.add_text("class", type(value).__qualname__)
    for name, item in sorted(vars(value).items()):
        try:
            reading.add_text(name, reading.writer.write(item, name, reading.home))
        except (Unidentified, TrainerError):
            reading.add_text(name, _pickled(item))
    return reading.record.parts


def _pickled(value: object) -> str:
    """Return a text for an object of a library, whose state is its own affair."""
    kind = type(value).__qualname__
    try:
        return f"a {kind} {digest(pickle.dumps(value, protocol=5))[:12]}"
    except Exception:  # it may have a lock, a file or anything else that stays in its process
        return f"a {kind}"
