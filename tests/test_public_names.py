"""The public names each say what they are, and importing them is quick."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import hippotune as hippo


@pytest.mark.parametrize("name", [name for name in hippo.__all__ if name != "__version__"])
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(hippo, name))


def test_importing_hippo_imports_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import hippotune; "
        "print({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "{'hippotune'}"


def test_what_is_missing_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'hippotune' has no attribute 'Nothing'"):
        hippo.Nothing  # type: ignore[attr-defined]  # noqa: B018
