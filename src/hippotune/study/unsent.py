"""Statements at the top of a script that workers do not carry out: they get its classes, and do not run it.

What such a statement sets in an installed package that training uses would silently be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hippotune.errors import TrainerError
from hippotune.identity.effects import Effect
from hippotune.identity.fingerprint import Fingerprint, around_scripts, file_of
from hippotune.identity.key import Identity
from hippotune.identity.parts import shown

# These are compared between the processes themselves, set by Hippo, or passed on: the environment.
_COMPARED = re.compile(
    r".*(backends\.|set_default_(dtype|device)|matmul_precision|set_detect_anomaly|seterr|register_module_|environ).*"
)


def refuse_unsent(home: str, code: Identity | Fingerprint, is_importable: Callable[[str], bool]) -> list[str]:
    """Raise where a script assigns to a package that training uses; return warnings of its calls there."""
    around = around_scripts(home)
    modules = {**around, **code.modules}
    imported = {name for name, module in modules.items() if module.is_read and is_importable(name)}
    pending = list(imported)
    while pending:
        module = modules.get(pending.pop())
        new = set(module.imports if module else ()) - imported
        imported |= new
        pending += new
    files = {file_of(name) for name in imported} - {""}  # a script may be imported too, by what it imports
    unsent = [
        effect
        for name, module in {**modules, **around}.items()
        if name not in imported and file_of(name) not in files
        for effect in module.effects
        if effect.package in code.imports and not _COMPARED.fullmatch(effect.reached)
    ]
    if assigned := [_said(effect) for effect in unsent if effect.assigns]:
        raise TrainerError(
            f"workers do not run your script, so they would train without: {shown(assigned)}. Move it into "
            "build() or prepare(), or into a module that the trainer's code is imported from"
        )
    return [
        f"workers do not run your script, so {_said(effect)} is not called in them. If training needs it, "
        "move it into build() or prepare(), or into a module that the trainer's code is imported from"
        for effect in unsent
    ]


def _said(effect: Effect) -> str:
    return effect.shown.splitlines()[0][:80]
