"""What the bits of a result depend on besides the code: processor, devices and libraries of a worker.

Two workers are alike where the text is the same. Proofs compare states of such workers alone. Nothing is
imported for it and no device is touched: what training uses is loaded by then.
"""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from hippotune.executors.environment import GPU_VARIABLE
from hippotune.identity.versions import versions

_DRIVER = Path("/proc/driver/nvidia/gpus")
_PROCESSOR = Path("/proc/cpuinfo")
# By these, libraries choose how they compute; the first that a processor has counts.
_CAPABILITIES = {"avx512f": "AVX512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}


def platform_of_this_process() -> str:
    """Return it as ``x86_64 AVX2, NVIDIA A100-SXM4-40GB, numpy 2.3.1, python 3.12.3, torch 2.13.0``."""
    libraries = [f"{name} {version}" for name, version in sorted(versions().items())]
    return ", ".join([f"{platform.machine()} {_capability()}".strip(), *_devices(), *libraries])


def _capability() -> str:
    if (torch := sys.modules.get("torch")) is not None:
        return str(torch.backends.cpu.get_cpu_capability())
    with suppress(OSError):
        words = set(_PROCESSOR.read_text().split())
        return next((name for flag, name in _CAPABILITIES.items() if flag in words), "")
    return ""


def _devices() -> list[str]:
    """Return the models of GPUs, as the driver names them; of several, which ones this process sees, too."""
    models = set()
    with suppress(OSError):
        for file in _DRIVER.glob("*/information"):
            for line in file.read_text().splitlines():
                if line.startswith("Model:"):
                    models.add(line.removeprefix("Model:").strip())
    seen = os.environ.get(GPU_VARIABLE)
    return sorted(models) + ([f"{GPU_VARIABLE}={seen}"] if len(models) > 1 and seen is not None else [])
