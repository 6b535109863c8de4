"""The public names are those of the reference page, each with a docstring, and importing them is quick."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hippotune as hippo

DOCS = Path(__file__).parents[1] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_page_is_made_from_the_docstrings() -> None:
    assert (DOCS / "reference.md").read_text() == maker().page(), "run: python docs/make_reference.py"


def test_every_public_name_is_on_the_page_and_says_what_it_is() -> None:
    page = (DOCS / "reference.md").read_text()
    named = set(re.findall(r"^\| `hippo\.(\w+)` \| \S", page, re.MULTILINE))
    named |= set(re.findall(r"^### `hippo\.(\w+)`", page, re.MULTILINE))
    assert named | {"__version__"} == set(hippo.__all__)


def test_importing_hippo_imports_nothing_else_of_it() -> None:
    program = "import sys, hippotune; print([name for name in sys.modules if name.startswith('hippotune.')])"
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_what_is_missing_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'hippotune' has no attribute 'Nothing'"):
        hippo.Nothing  # type: ignore[attr-defined]  # noqa: B018
