"""The wheel, built and installed once for all tests, and what extras bring, one environment for each.

The wheel is installed by pip in an empty environment, with what it depends on. An extra is a folder of links
to the distributions that pip would install for it, and to no others, which is put on the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from filelock import FileLock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
INSTEAD = {"xgboost": "xgboost-cpu"}
"""Distributions of the same modules that are installed here in place of others."""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program that has to succeed; return what it printed."""
    variables = {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """The wheel, and the environment in which it is installed by itself."""

    wheel: Path
    bin: Path

    def with_extras(self, folder: Path, *extras: str) -> Mapping[str, str]:
        """Return the variables by which programs of the environment find what extras bring, and no more."""
        for name in sorted(self._needed(*extras) - self._needed()):
            link(distribution(INSTEAD.get(name, name)), folder)
        return {"PYTHONPATH": str(folder)}

    def _needed(self, *extras: str) -> set[str]:
        """Return the names of all distributions that pip would install for the wheel with extras."""
        site = next(self.bin.parent.glob("lib/*/site-packages"))
        (own,) = distributions(name="hippotune", path=[str(site)])
        waiting = [Requirement(f"hippotune[{','.join(extras)}]")]
        seen: set[tuple[str, ...]] = set()
        while waiting:
            wanted = waiting.pop()
            name = canonicalize_name(wanted.name)
            if (name, *sorted(wanted.extras)) in seen:
                continue
            seen.add((name, *sorted(wanted.extras)))
            found = own if name == "hippotune" else distribution(INSTEAD.get(name, name))
            for further in map(Requirement, found.requires or ()):
                if further.marker is None or any(
                    further.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
                ):
                    waiting.append(further)
        return {name for name, *_ in seen} - {"hippotune"}


def link(found: Distribution, folder: Path) -> None:
    """Link what belongs to a distribution; folders that several of them share are made."""
    for file in found.files or ():
        if ".." in file.parts or file.parts[0] == "__pycache__":
            continue
        for depth in range(1, len(file.parts) + 1):
            place = folder.joinpath(*file.parts[:depth])
            target = Path(str(found.locate_file(Path(*file.parts[:depth]))))
            is_shared = target.is_dir() and not (target / "__init__.py").exists() and depth < len(file.parts)
            if is_shared and not target.suffix:
                place.mkdir(parents=True, exist_ok=True)
                continue
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)
            break


def build(folder: Path) -> Path:
    """Build the wheel from a copy of the sources alone."""
    source = folder / "source"
    for name in run("git", "ls-files", "src", "pyproject.toml", "README.md", "LICENSE", cwd=ROOT).split():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    static = ROOT / "src/hippotune/page/static"
    shutil.copytree(static, source / "src/hippotune/page/static", dirs_exist_ok=True)
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", folder)
    run(sys.executable, "-m", "pip", "wheel", *options, source, cwd=folder)
    (file,) = folder.glob("hippotune-*.whl")
    return file


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Installed:
    """The wheel, installed by itself. All processes that run tests share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "installed"
    with FileLock(f"{folder}.lock"):
        if not (folder / "ready").exists():
            folder.mkdir()
            options = ("--quiet", "--disable-pip-version-check", "--no-compile")
            run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
            pip = (sys.executable, "-m", "pip", "--python", folder / "env/bin/python")
            constraints = ("-c", ROOT / "constraints.txt")
            run(*pip, "install", *options, *constraints, build(folder), cwd=folder)
            (folder / "ready").touch()
    (wheel,) = folder.glob("hippotune-*.whl")
    return Installed(wheel, folder / "env" / "bin")
