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
from contextlib import contextmanager, suppress
from functools import partial, reduce
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
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
    devices: Any = getattr(torch, kind, None)
    if hasattr(devices, "is_available") and not devices.is_available():
        return  # it is not here
    if hasattr(devices, "device_count") and int(number or 0) >= devices.device_count():
        return
    torch.set_default_device(None if name == "cpu" else name)


def _of_kind(get: str, set: str, kind: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], object]]:
    """Return how a setting is read and set that has functions which are told of which kind of device."""
    return (
        lambda torch: attrgetter(get)(torch)(kind),
        lambda torch, value: attrgetter(set)(torch)(kind, value),
    )


def _dtype_of_autocast(kind: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], object]]:
    return (
        lambda torch: str(torch.get_autocast_dtype(kind))[len("torch.") :],
        lambda torch, name: torch.set_autocast_dtype(kind, getattr(torch, name)),
    )


_OF_TORCH = {
    "default dtype": (lambda torch: str(torch.get_default_dtype())[len("torch.") :], _set_dtype),
    "default device": (lambda torch: str(torch.get_default_device()), _set_device),
    "gradients": _calls("is_grad_enabled", "set_grad_enabled"),
    "anomalies": _calls("is_anomaly_enabled", "autograd.set_detect_anomaly"),
    "denormals": (lambda _: _TINY * _ONE > 0, lambda torch, on: torch.set_flush_denormal(not on)),
    "anomalies of NaN": (
        lambda torch: torch.is_anomaly_check_nan_enabled(),
        lambda torch, on: torch.autograd.set_detect_anomaly(torch.is_anomaly_enabled(), on),
    ),
    "autocast on the CPU": _of_kind("is_autocast_enabled", "set_autocast_enabled", "cpu"),
    "autocast on GPUs": _of_kind("is_autocast_enabled", "set_autocast_enabled", "cuda"),
    "dtype of autocast on the CPU": _dtype_of_autocast("cpu"),
    "dtype of autocast on GPUs": _dtype_of_autocast("cuda"),
    "flash attention": _calls("backends.cuda.flash_sdp_enabled", "backends.cuda.enable_flash_sdp"),
    "efficient attention": _calls(
        "backends.cuda.mem_efficient_sdp_enabled", "backends.cuda.enable_mem_efficient_sdp"
    ),
    "math attention": _calls("backends.cuda.math_sdp_enabled", "backends.cuda.enable_math_sdp"),
    "cuDNN attention": _calls("backends.cuda.cudnn_sdp_enabled", "backends.cuda.enable_cudnn_sdp"),
    "sums of math attention": _calls(
        "backends.cuda.fp16_bf16_reduction_math_sdp_allowed",
        "backends.cuda.allow_fp16_bf16_reduction_math_sdp",
    ),
    "attention's fast path": _calls("backends.mha.get_fastpath_enabled", "backends.mha.set_fastpath_enabled"),
    "cuDNN": _attribute("backends.cudnn.enabled"),
    "oneDNN": _attribute("backends.mkldnn.enabled"),
    "sums in half precision": _attribute("backends.cuda.matmul.allow_fp16_accumulation"),
    "sums of FP16": _attribute("backends.cuda.matmul.allow_fp16_reduced_precision_reduction"),
    "sums of BF16": _attribute("backends.cuda.matmul.allow_bf16_reduced_precision_reduction"),
    # These set some of the fields that follow, too.
    "matmul precision": _calls("get_float32_matmul_precision", "set_float32_matmul_precision"),
    "TF32 in matmul": _attribute("backends.cuda.matmul.allow_tf32"),
    "TF32 in cuDNN": _attribute("backends.cudnn.allow_tf32"),
    **{
        f"precision of {where}": _attribute(f"backends.{where}.fp32_precision".replace("..", "."))
        for where in (
            "",
            "cudnn",  # which the one that follows falls back to
            "cuda.matmul",
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
    if captured == capture():
        return
    for _ in range(2):  # some depend on others, which may come later
        for name, value in captured.items():
            library, _, setting = name.partition(" ")
            read, change = _SETTINGS[library][setting]
            with suppress(ImportError):  # it is not installed here
                module = importlib.import_module(library)
                if [value] != list(_values(read, module)):
                    change(module, value)


def _values(read: Callable[[Any], Any], library: Any) -> Iterator[Any]:
    """Yield a setting; nothing where a library has no such setting, or none that can be read now."""
    with suppress(Exception):
        value = read(library)
        if value is None or isinstance(value, (bool, int, str, dict)):
            yield value


class Surroundings:
    """What trials of this process start in: settings, and the working folder.

    Modules are imported once in a process, so that what they set belongs here, whichever trial imports them.
    """

    def __init__(self) -> None:
        self._settings = capture()
        self._folder = _working_folder()

    def put_back(self) -> None:
        """Put the settings and the working folder back to where they were before any trial."""
        restore(self._settings)
        if self._folder is not None and _working_folder() != self._folder:
            with suppress(OSError):  # it is gone, and was where this process is
                os.chdir(self._folder)

    @contextmanager
    def following_imports(self) -> Iterator[Settings]:
        """Take over what modules set that are imported in the block; yield that, as far as it is known."""
        follower = _ImportFollower(self._settings)
        sys.meta_path.insert(0, follower)
        try:
            yield follower.found
        finally:
            sys.meta_path.remove(follower)


class _ImportFollower(MetaPathFinder):
    """Finds modules as the other finders do, and adds to `settings` those that one changes when it is run."""

    def __init__(self, settings: Settings) -> None:
        self.found: Settings = {}
        self._settings = settings
        self._is_inside = False

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if self._is_inside:  # what a module imports is a part of its own import
            return None
        try:
            others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        except ValueError:  # another thread imports while the block ends
            return None
        finders = (each.find_spec for each in others if hasattr(each, "find_spec"))
        spec = next((spec for find in finders if (spec := find(name, path, target)) is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module") and hasattr(spec.loader, "__dict__"):
            loader: Any = spec.loader
            if not isinstance(loader, type):
                loader.exec_module = partial(self._run, loader, loader.exec_module)
        return spec

    def _run(self, loader: Any, run: Callable[[ModuleType], None], module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        before, self._is_inside = capture(), True
        try:
            run(module)
        finally:
            self._is_inside = False
            changed = {name: value for name, value in capture().items() if before.get(name, ...) != value}
            self.found |= changed
            self._settings |= changed


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None
