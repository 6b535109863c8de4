"""Settings of libraries that code computes by without naming them: of torch, NumPy, JAX and decimals.

Left aside is what Hippo sets itself: seeds, threads, and which algorithms are deterministic.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

Settings = dict[str, Any]
"""Settings as plain values, by name; those that this process does not have are not there."""

_TINY, _ONE = 5e-324, 1.0


@dataclass(frozen=True, slots=True)
class _Setting:
    """How a setting is changed: by a function of the library, or by name; without one, it is an attribute.

    `usual` is what a fresh process has, where that is the same everywhere. Its name says how it is `read`, if
    nothing else does.
    """

    change: str | Callable[[Any, Any], object] | None = None
    usual: object = ...
    read: Callable[[Any], Any] | None = None


def _set_dtype(torch: Any, name: str) -> None:
    torch.set_default_dtype(_dtype(torch, name))


def _set_autocast(kind: str, torch: Any, on: bool) -> None:
    torch.set_autocast_enabled(kind, on)


def _set_autocast_dtype(kind: str, torch: Any, name: str) -> None:
    torch.set_autocast_dtype(kind, _dtype(torch, name))


def _dtype(torch: Any, name: str) -> Any:
    return getattr(torch, name.removeprefix("torch."))


def _set_device(torch: Any, name: str) -> None:
    kind, _, number = name.partition(":")
    devices: Any = getattr(torch, kind, None)
    if hasattr(devices, "is_available") and not devices.is_available():
        return  # it is not here
    if hasattr(devices, "device_count") and int(number or 0) >= devices.device_count():
        return
    torch.set_default_device(None if name == "cpu" else name)


def _set_jax(name: str, jax: Any, value: Any) -> None:
    jax.config.update(name, value)


_SETTINGS: dict[str, _Setting] = {
    "torch.get_default_dtype()": _Setting(_set_dtype, "torch.float32"),
    "torch.get_default_device()": _Setting(_set_device, "cpu"),
    "torch.is_grad_enabled()": _Setting("set_grad_enabled"),
    "torch.is_anomaly_enabled()": _Setting("autograd.set_detect_anomaly", False),
    "torch.is_anomaly_check_nan_enabled()": _Setting(
        lambda torch, on: torch.autograd.set_detect_anomaly(torch.is_anomaly_enabled(), on)
    ),
    "torch.set_flush_denormal": _Setting("set_flush_denormal", False, lambda _: _TINY * _ONE == 0),
    **{
        name: setting
        for kind in ("cpu", "cuda")
        for name, setting in {
            f"torch.is_autocast_enabled({kind})": _Setting(partial(_set_autocast, kind)),
            f"torch.get_autocast_dtype({kind})": _Setting(partial(_set_autocast_dtype, kind)),
        }.items()
    },
    "torch.backends.cuda.flash_sdp_enabled()": _Setting("backends.cuda.enable_flash_sdp", True),
    "torch.backends.cuda.mem_efficient_sdp_enabled()": _Setting(
        "backends.cuda.enable_mem_efficient_sdp", True
    ),
    "torch.backends.cuda.math_sdp_enabled()": _Setting("backends.cuda.enable_math_sdp", True),
    "torch.backends.cuda.cudnn_sdp_enabled()": _Setting("backends.cuda.enable_cudnn_sdp"),
    "torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()": _Setting(
        "backends.cuda.allow_fp16_bf16_reduction_math_sdp"
    ),
    "torch.backends.mha.get_fastpath_enabled()": _Setting("backends.mha.set_fastpath_enabled"),
    "torch.backends.cudnn.enabled": _Setting(usual=True),
    "torch.backends.mkldnn.enabled": _Setting(usual=True),
    "torch.backends.cuda.matmul.allow_fp16_accumulation": _Setting(),
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": _Setting(usual=True),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": _Setting(usual=True),
    # These set some of the fields that follow, too.
    "torch.get_float32_matmul_precision()": _Setting("set_float32_matmul_precision", "highest"),
    "torch.backends.cuda.matmul.allow_tf32": _Setting(usual=False),
    "torch.backends.cudnn.allow_tf32": _Setting(usual=True),
    "torch.backends.fp32_precision": _Setting(usual="none"),
    "torch.backends.cudnn.fp32_precision": _Setting(),  # which the one that follows falls back to
    "torch.backends.cuda.matmul.fp32_precision": _Setting(usual="none"),
    **{
        f"torch.backends.{where}.fp32_precision": _Setting()
        for where in ("cudnn.conv", "cudnn.rnn", "mkldnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
    },
    "numpy.geterr()": _Setting(
        lambda numpy, what: numpy.seterr(**what),
        {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
    ),
    "jax.config.jax_enable_x64": _Setting(partial(_set_jax, "jax_enable_x64"), False),
    "jax.config.jax_default_matmul_precision": _Setting(
        partial(_set_jax, "jax_default_matmul_precision"), None
    ),
    "jax.config.jax_default_prng_impl": _Setting(partial(_set_jax, "jax_default_prng_impl")),
    "decimal.getcontext().prec": _Setting(),
    "decimal.getcontext().rounding": _Setting(),
}


def capture() -> Settings:
    """Return the settings as they are now, of the libraries that are loaded."""
    return {
        name: value
        for name, setting in _SETTINGS.items()
        if (library := sys.modules.get(_library_of(name))) is not None
        for value in _values(name, setting, library)
    }


def restore(captured: Settings) -> None:
    """Put captured settings back; what was not captured stays."""
    if captured == capture():
        return
    for _ in range(2):  # some depend on others, which may come later
        for name, value in captured.items():
            with suppress(ImportError):  # it is not installed here
                library = importlib.import_module(_library_of(name))
                if [value] != list(_values(name, _SETTINGS[name], library)):
                    _change(name, _SETTINGS[name], library, value)


def unusual() -> Settings:
    """Return the settings that are not what a fresh process has, as far as that is the same everywhere."""
    usual = {name: setting.usual for name, setting in _SETTINGS.items() if setting.usual is not ...}
    return {name: value for name, value in capture().items() if usual.get(name, value) != value}


def usual(name: str) -> object:
    """Return what a fresh process has for a setting that may be unusual; "none" where it is not known."""
    return _SETTINGS[name].usual if name in _SETTINGS else "none"


@cache
def _library_of(name: str) -> str:
    return name.partition(".")[0]


def _values(name: str, setting: _Setting, library: Any) -> Iterator[Any]:
    """Yield a setting; nothing where a library has no such setting, or none that can be read now."""
    with suppress(Exception):
        value = (setting.read or _getter(name))(library)
        if value is None or isinstance(value, (bool, int, str, dict)):
            yield value
        elif type(value).__module__ == "torch":  # a dtype or a device
            yield str(value)


def _change(name: str, setting: _Setting, library: Any, value: Any) -> None:
    match setting.change:
        case None:
            owner, _, attribute = name.rpartition(".")
            setattr(_getter(owner)(library), attribute, value)
        case str(function):
            attrgetter(function)(library)(value)
        case change:
            change(library, value)


@cache
def _getter(name: str) -> Callable[[Any], Any]:
    """Return what follows a path from a library: attributes, and at most one call, perhaps with a word."""
    path = name.partition(".")[2]
    if "(" not in path:
        return attrgetter(path)
    function, _, rest = path.partition("(")
    argument, _, further = rest.partition(")")
    get, words = attrgetter(function), [argument] if argument else []
    if not further:
        return lambda library: get(library)(*words)
    then = attrgetter(further.removeprefix("."))
    return lambda library: then(get(library)(*words))
