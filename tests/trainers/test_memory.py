"""Errors that say "no memory" are told from others."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from hippotune.trainers import is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        RuntimeError("MPS backend out of memory (MPS allocated: 18.10 GB)"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_out_of_memory_is_recognised(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_it_is_recognised_through_the_error_that_was_raised_from_it() -> None:
    def prepare() -> None:
        try:
            torch.empty(1 << 60)
        except RuntimeError as error:
            raise ValueError("no batch") from error

    with pytest.raises(ValueError) as caught:
        prepare()
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    "error", [RuntimeError("shape mismatch"), ValueError("out of memory lane"), KeyError("lr")]
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_asking_does_not_load_torch() -> None:
    code = (
        "import sys, hippotune; from hippotune.trainers import is_out_of_memory\n"
        "assert is_out_of_memory(MemoryError()) and not is_out_of_memory(RuntimeError('x'))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
