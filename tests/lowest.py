"""Runs the tests of adapters with the oldest versions that their extras allow: ``make lowest``.

A virtual environment below this one has these versions, and finds everything else here; torch stays as it is.
What is given after the program's name goes to pytest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("sklearn", "xgboost", "lightgbm", "transformers", "lightning")
CPU_ONLY = {"xgboost": "xgboost-cpu"}


def lowest(extra: str) -> list[str]:
    """Return ``name==version`` for each requirement of an extra, but for those that are extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.fullmatch(r"([\w-]+)>=([\d.]+)", each) for each in project["optional-dependencies"][extra])
    return [f"{CPU_ONLY.get(parts[1], parts[1])}=={parts[2]}" for parts in found if parts]


def make(folder: Path) -> Path:
    """Make the environment; return its interpreter."""
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    own = sysconfig.get_path("purelib", vars={"base": str(folder)})
    here = sysconfig.get_path("purelib")
    (Path(own) / "everything_else.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    for extra in EXTRAS:
        requirements = lowest(extra)
        print(f"{extra}: {' '.join(requirements)}", flush=True)
        # One by one: together, pip searches for versions of what they have in common for many minutes.
        options = ["--quiet", "--no-compile", "--disable-pip-version-check", f"torch=={version('torch')}"]
        subprocess.run([python, "-m", "pip", "install", *options, *requirements], check=True)
    return python


if __name__ == "__main__":
    python = make(Path(sys.prefix) / "lowest")
    tests = sys.argv[1:] or [str(ROOT / "tests" / "adapters")]
    sys.exit(subprocess.run([python, "-m", "pytest", "-p", "no:cacheprovider", *tests], cwd=ROOT).returncode)
