"""Settings of a process that training computes by without naming them: of torch, NumPy, JAX and Python.

They belong to a trial's state, as random generators do: a trial from scratch starts with those that prepare()
left, and a checkpoint of a whole object holds those of its trial. Left aside is what Hippo sets itself:
seeds, threads, and which algorithms are deterministic.
"""

from __future__ import annotations

import decimal
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from operator import attrgetter
from typing import Any

_TINY, _ONE = 5e-324, 1.0

Settings = dict[str, Any]
"""Settings as plain values, by name; those that this process does not have are not there."""


def _calls(get: str, set: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], object]]:
    """Return how a setting is read and set that has a function for each."""
    return lambda library: attrgetter(get)(library)(), lambda library, value: attrgetter(set)(library)(value)


def _attribute(path: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], object]]:
    *owner, name = path.split(".")
    return attrgetter(path), lambda library, value: setattr(reduce(getattr, owner, library), name, value)


def _set_dtype(torch: Any, name: str) -> None:
    torch.set_default_dtype(getattr(torch, name))


def _set_device(torch: Any, name: str) -> None:
    kind, _, number = name.partition(":")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        return  # it is not here
    torch.set_default_device(None if name == "cpu" else name)


_OF_TORCH = {
    "default dtype": (lambda torch: str(torch.get_default_dtype())[len("torch.") :], _set_dtype),
    "default device": (lambda torch: str(torch.get_default_device()), _set_device),
    "gradients": _calls("is_grad_enabled", "set_grad_enabled"),
    "anomalies": _calls("is_anomaly_enabled", "autograd.set_detect_anomaly"),
    "denormals": (lambda _: _TINY * _ONE > 0, lambda torch, on: torch.set_flush_denormal(not on)),
    "autocast on the CPU": (
        lambda torch: torch.is_autocast_enabled("cpu"),
        lambda torch, on: torch.set_autocast_enabled("cpu", on),
    ),
    "autocast on GPUs": (
        lambda torch: torch.is_autocast_enabled("cuda"),
        lambda torch, on: torch.set_autocast_enabled("cuda", on),
    ),
    "flash attention": _calls("backends.cuda.flash_sdp_enabled", "backends.cuda.enable_flash_sdp"),
    "efficient attention": _calls(
        "backends.cuda.mem_efficient_sdp_enabled", "backends.cuda.enable_mem_efficient_sdp"
    ),
    "math attention": _calls("backends.cuda.math_sdp_enabled", "backends.cuda.enable_math_sdp"),
    "cuDNN attention": _calls("backends.cuda.cudnn_sdp_enabled", "backends.cuda.enable_cudnn_sdp"),
    "attention's fast path": _calls("backends.mha.get_fastpath_enabled", "backends.mha.set_fastpath_enabled"),
    "cuDNN": _attribute("backends.cudnn.enabled"),
    "oneDNN": _attribute("backends.mkldnn.enabled"),
    # These set some of the fields that follow, too.
    "matmul precision": _calls("get_float32_matmul_precision", "set_float32_matmul_precision"),
    "TF32 in matmul": _attribute("backends.cuda.matmul.allow_tf32"),
    "TF32 in cuDNN": _attribute("backends.cudnn.allow_tf32"),
    **{
        f"precision of {where}": _attribute(f"backends.{where}.fp32_precision".replace("..", "."))
        for where in (
            "",
            "cuda.matmul",
            "cudnn",
            "cudnn.conv",
            "cudnn.rnn",
            "mkldnn",
            "mkldnn.matmul",
            "mkldnn.conv",
            "mkldnn.rnn",
        )
    },
}
_OF_NUMPY = {"errors": (lambda numpy: numpy.geterr(), lambda numpy, what: numpy.seterr(**what))}
_OF_JAX = {
    name: (attrgetter(f"config.{name}"), lambda jax, value, name=name: jax.config.update(name, value))
    for name in ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl")
}
_OF_DECIMAL = {
    name: (
        lambda module, name=name: getattr(module.getcontext(), name),
        lambda module, value, name=name: setattr(module.getcontext(), name, value),
    )
    for name in ("prec", "rounding")
}
_SETTINGS: Mapping[str, Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]]] = {
    "torch": _OF_TORCH,
    "numpy": _OF_NUMPY,
    "jax": _OF_JAX,
    decimal.__name__: _OF_DECIMAL,
}


def capture() -> Settings:
    """Return the settings as they are now, of the libraries that are loaded."""
    return {
        f"{name} {setting}": value
        for name, settings in _SETTINGS.items()
        if (library := sys.modules.get(name)) is not None
        for setting, (read, _) in settings.items()
        for value in _values(read, library)
    }


def restore(captured: Settings) -> None:
    """Put captured settings back; what was not captured stays."""
    for name, value in captured.items():
        library, _, setting = name.partition(" ")
        read, change = _SETTINGS[library][setting]
        module = importlib.import_module(library)
        if [value] != list(_values(read, module)):
            change(module, value)


def _values(read: Callable[[Any], Any], library: Any) -> Iterator[Any]:
    """Yield a setting; nothing where a library has no such setting, or none that can be read now."""
    with suppress(Exception):
        yield read(library)


class Surroundings:
    """What trials of this process start in: settings, and the working folder.

    Modules are imported once in a process, so that what they set belongs here, whichever trial imports them.
    """

    def __init__(self) -> None:
        self._settings = self._seen = capture()
        self._modules = len(sys.modules)
        self._folder = _working_folder()

    def put_back(self) -> None:
        """Put the settings and the working folder back to where they were before any trial."""
        restore(self._settings)
        self._seen = capture()
        if self._folder is not None and _working_folder() != self._folder:
            with suppress(OSError):  # it is gone, and was where this process is
                os.chdir(self._folder)

    @property
    def has_imported(self) -> bool:
        """Whether modules were imported since the last look."""
        return len(sys.modules) != self._modules

    def look(self, is_users: Callable[[str], bool]) -> bool:
        """Take over what was set since the last look, if modules of the user's were imported; say whether."""
        imported = any(map(is_users, list(sys.modules)[self._modules :]))
        self._modules, seen, self._seen = len(sys.modules), self._seen, capture()
        if imported:
            self._settings |= {name: value for name, value in self._seen.items() if value != seen.get(name)}
        return imported


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None
