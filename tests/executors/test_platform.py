"""Workers are alike where the text of their platforms is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from hippotune.executors import platform
from hippotune.executors.environment import GPU_VARIABLE


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platform, "_DRIVER", tmp_path)
    return tmp_path


def add_gpu(driver: Path, bus: str, model: str) -> None:
    (driver / bus).mkdir()
    (driver / bus / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 42\n")


def seen(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(GPU_VARIABLE, gpu)
    return platform.platform_of_this_process()


def test_workers_on_different_gpus_of_one_model_are_alike(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        add_gpu(driver, bus, "NVIDIA A100-SXM4-40GB")
    assert "NVIDIA A100-SXM4-40GB, " in seen("0", monkeypatch)
    assert seen("0", monkeypatch) == seen("1", monkeypatch)


def test_workers_on_different_gpus_are_not_alike_where_a_machine_has_several_models(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_gpu(driver, "0000:01:00.0", "NVIDIA A100-SXM4-40GB")
    add_gpu(driver, "0000:02:00.0", "Tesla T4")
    assert seen("0", monkeypatch) == seen("0", monkeypatch)
    assert seen("0", monkeypatch) != seen("1", monkeypatch)
