"""What a plan is keyed by: source, globals, arguments, settings, data, versions.

A result belongs to what made it. Everything that training code reads is part of a plan's key, or training is
refused by an error that names it.
"""

from __future__ import annotations

from typing import Any

from hippotune.sequences.custom import identify_functions_by


def _identified(function: Any) -> str:
    from hippotune.identity.fingerprint import fingerprint_of_function

    return fingerprint_of_function(function)


identify_functions_by(_identified)
