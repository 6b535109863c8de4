"""Whether a worker, which imports the user's modules anew, finds the trainer that the study was keyed by.

It does not where a script has set a module's global after the import, where a file was edited meanwhile, or
where a node has other environment variables. What was sent by value is the same by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import fingerprint
from hippotune.identity.parts import differences, is_compiled


def changes_by_import(trainer: type, expected: Mapping[str, str], by_value: Collection[str]) -> list[str]:
    """Return what differs here from `expected`, the parts of the trainer's fingerprint, for a person to read.

    Of modules that came `by_value`, nothing is compared; of others, what both sides have source or values of.
    """
    if not expected:
        return []
    try:
        found = fingerprint(trainer).parts
    except TrainerError:
        return []  # some of it means nothing here; what does is not known
    imported = trainer.__module__ not in by_value

    def compared(name: str) -> bool:
        if name not in expected or name not in found:
            return False
        if is_compiled(expected[name]) or is_compiled(found[name]):
            return False
        module = name.rpartition(".")[0]
        return imported or name.startswith("$") or (module in sys.modules and module not in by_value)

    names = [name for name in found if compared(name)]
    return differences({name: expected[name] for name in names}, {name: found[name] for name in names})
