"""The site is built without a warning, refers to every public name, and loads nothing from elsewhere."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import hippotune as hippo
from docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def public_names() -> set[str]:
    """Return all names that users may write, of `hippo` and of its submodules."""
    names = {f"hippotune.{name}" for name in hippo._MODULES}
    for submodule in hippo.SUBMODULES:
        module = importlib.import_module(f"hippotune.{submodule}")
        public = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        ]
        names |= {f"hippotune.{submodule}.{name}" for name in public if name not in hippo.__all__}
    return names


def referred(site: Path) -> set[str]:
    """Return the names that the reference explains; beside them, its inventory has where they are made."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = [line.split() for line in zlib.decompress(inventory).decode().splitlines()]
    return {place.rpartition("#")[2].replace("$", name) for name, _, _, place, _ in entries}


def test_every_public_name_is_in_the_reference_and_no_other(site: Path) -> None:
    public, explained = public_names(), referred(site)
    assert public - explained == set()
    others = {name for name in explained - public if name.rpartition(".")[0] not in public}
    assert others == set(), "what is in the reference is public, or belongs to what is"


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    loads = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//')
    assert not [page for page in pages if loads.search(page.read_text())]
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", styles)
