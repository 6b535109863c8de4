"""Settings of this process that training computes by without naming them: of torch, NumPy, JAX and Python.

They belong to a trial's state, as random generators do: a trial from scratch starts with those that prepare()
left, and a checkpoint holds those of its trial. Left aside is what Hippo sets itself: random seeds, threads,
and which algorithms are deterministic.
"""

from __future__ import annotations

import decimal
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any

OF_LIBRARIES: Mapping[str, object] = {
    "torch.get_default_dtype()": "torch.float32",
    "torch.get_default_device()": "cpu",
    "torch.get_float32_matmul_precision()": "highest",
    "torch.is_anomaly_enabled()": False,
    "torch.backends.cudnn.enabled": True,
    "torch.backends.cudnn.allow_tf32": True,
    "torch.backends.fp32_precision": "none",
    "torch.backends.cuda.matmul.allow_tf32": False,
    "torch.backends.cuda.matmul.fp32_precision": "none",
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": True,
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": True,
    "torch.backends.cuda.flash_sdp_enabled()": True,
    "torch.backends.cuda.mem_efficient_sdp_enabled()": True,
    "torch.backends.cuda.math_sdp_enabled()": True,
    "torch.backends.mkldnn.enabled": True,
    "numpy.geterr()": {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
    "jax.config.jax_enable_x64": False,
    "jax.config.jax_default_matmul_precision": None,
}
"""What a fresh process has, by how it is read."""

_OF_A_THREAD: Mapping[str, object] = {
    "torch.is_grad_enabled()": True,
    "torch denormal numbers": True,
    "decimal precision": 28,
    "decimal rounding": decimal.ROUND_HALF_EVEN,
}

_SETTERS: Mapping[str, Callable[[Any, Any], object]] = {
    "torch.get_default_dtype()": lambda torch, name: torch.set_default_dtype(getattr(torch, name[6:])),
    "torch.get_default_device()": lambda torch, name: torch.set_default_device(
        None if name == "cpu" else name
    ),
    "torch.get_float32_matmul_precision()": lambda torch, name: torch.set_float32_matmul_precision(name),
    "torch.is_anomaly_enabled()": lambda torch, on: torch.autograd.set_detect_anomaly(on),
    "torch.is_grad_enabled()": lambda torch, on: torch.set_grad_enabled(on),
    "torch.backends.cuda.flash_sdp_enabled()": lambda torch, on: torch.backends.cuda.enable_flash_sdp(on),
    "torch.backends.cuda.mem_efficient_sdp_enabled()": lambda torch, on: (
        torch.backends.cuda.enable_mem_efficient_sdp(on)
    ),
    "torch.backends.cuda.math_sdp_enabled()": lambda torch, on: torch.backends.cuda.enable_math_sdp(on),
    "torch denormal numbers": lambda torch, on: torch.set_flush_denormal(not on),
    "numpy.geterr()": lambda numpy, what: numpy.seterr(**what),
    "jax.config.jax_enable_x64": lambda jax, on: jax.config.update("jax_enable_x64", on),
    "jax.config.jax_default_matmul_precision": lambda jax, name: jax.config.update(
        "jax_default_matmul_precision", name
    ),
    "decimal precision": lambda decimal, places: setattr(decimal.getcontext(), "prec", places),
    "decimal rounding": lambda decimal, name: setattr(decimal.getcontext(), "rounding", name),
}

_TINY, _ONE = 5e-324, 1.0


def of_libraries() -> dict[str, Any]:
    """Return the settings of libraries that are not what a fresh process has, by name, as plain values."""
    return _changed(OF_LIBRARIES)


def capture() -> dict[str, Any]:
    """Return all settings that are not what a fresh process has, as plain values; some are of this thread."""
    return _changed(OF_LIBRARIES) | _changed(_OF_A_THREAD)


def restore(captured: Mapping[str, Any]) -> None:
    """Put captured settings back, and all others to what a fresh process has."""
    if captured == capture():
        return
    for name, usual in (*OF_LIBRARIES.items(), *_OF_A_THREAD.items()):
        wanted, library = captured.get(name, usual), sys.modules.get(_library(name))
        # Some settings set others too, so that each is read when it is its turn.
        if library is not None and wanted != _changed({name: usual}).get(name, usual):
            if name in _SETTERS:
                _SETTERS[name](library, wanted)
            else:
                *path, attribute = name.split(".")[1:]
                setattr(reduce(getattr, path, library), attribute, wanted)


class Surroundings:
    """What trials of this process start in: settings, and the working folder."""

    def __init__(self) -> None:
        self.settings = capture()
        self._folder = _working_folder()

    def put_back(self) -> None:
        """Have them as they were."""
        restore(self.settings)
        if self._folder is not None and _working_folder() != self._folder:
            os.chdir(self._folder)

    def adopt(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        """Take over what was set at the first of two runs of the same code, and not at the second."""
        for name in first.keys() | second.keys():
            if first.get(name) != second.get(name):
                self.settings.pop(name, None)
                if name in first:
                    self.settings[name] = first[name]


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None


def _changed(settings: Mapping[str, object]) -> dict[str, Any]:
    found = {}
    for name, usual in settings.items():
        if (library := sys.modules.get(_library(name))) is not None:
            with suppress(Exception):  # a library that has no such setting, or none that can be read now
                if (value := _read(name, library)) != usual:
                    found[name] = value
    return found


def _library(name: str) -> str:
    return name.replace(" ", ".").partition(".")[0]


def _read(name: str, library: Any) -> Any:
    match name:
        case "torch denormal numbers":
            return _TINY * _ONE > 0
        case "decimal precision":
            return decimal.getcontext().prec
        case "decimal rounding":
            return decimal.getcontext().rounding
    value = reduce(getattr, name.removesuffix("()").split(".")[1:], library)
    value = value() if name.endswith("()") else value
    return value if isinstance(value, (bool, str, dict)) or value is None else str(value)
