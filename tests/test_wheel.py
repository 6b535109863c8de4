"""The wheel, installed by itself in an empty environment, is all that a first study needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources alone."""
    folder, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    for name in run("git", "ls-files", "src", "pyproject.toml", "README.md", "LICENSE", cwd=ROOT).split():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    build = ("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(sys.executable, *build, "--wheel-dir", folder, source, cwd=folder)
    (file,) = folder.glob("hippotune-*.whl")
    return file


def test_it_holds_all_modules_and_nothing_else(wheel: Path) -> None:
    listed = run("git", "ls-files", "src/hippotune", cwd=ROOT).split()
    expected = {name.removeprefix("src/") for name in listed}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("hippotune/")}
    assert held == expected


def test_a_study_runs_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    bin_ = tmp_path / "env" / "bin"
    constraints = ROOT / "constraints.txt"
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-compile", "-c")
    run(bin_ / "pip", *install, constraints, wheel, cwd=tmp_path)
    run(bin_ / "hippo", "init", cwd=tmp_path)
    assert "import torch" not in (tmp_path / "study.py").read_text()
    printed = run(bin_ / "hippo", "run", "study.py", cwd=tmp_path)
    assert "resumed trials: exact" in printed
    assert "study" in run(bin_ / "hippotune", "ls", cwd=tmp_path)
    without_torch = (bin_ / "python", "-c", "import hippotune; hippotune.TorchTrainer")
    refused = subprocess.run(without_torch, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.stderr.endswith("TorchTrainer needs PyTorch: pip install 'hippotune[torch]'\n")
