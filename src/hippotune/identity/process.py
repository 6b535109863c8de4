"""Settings of this process that training reads without naming them: of torch, NumPy and JAX, where loaded.

A worker does not run the user's script, so that what the script sets has no effect there. Left aside is what
Hippo sets itself: random seeds, threads, and which algorithms are deterministic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any

_FLAGS: dict[str, object] = {
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
"""What a fresh process has."""

_HOOKS = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_parameter_registration_hooks",
    "_global_module_registration_hooks",
    "_global_buffer_registration_hooks",
)


_set_by_trainers: set[str] = set()


@contextmanager
def running_trainer() -> Iterator[None]:
    """Leave aside from then on what the user's trainer sets in the block: it sets that in workers too."""
    before = changed_settings()
    try:
        yield
    finally:
        after = changed_settings()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        _set_by_trainers.update(changed)


def changed_settings() -> dict[str, str]:
    """Return the settings that are not what a fresh process has, by name."""
    found = {}
    for name, usual in _FLAGS.items():
        library, *attributes = name.removesuffix("()").split(".")
        if library in sys.modules:
            with suppress(Exception):  # a library that has no such setting, or none that can be read now
                value: Any = reduce(getattr, attributes, sys.modules[library])
                value = value() if name.endswith("()") else value
                if str(value) != str(usual):
                    found[name] = str(value)
    for name, hooks in _hooks(sys.modules.get("torch.nn.modules.module")):
        found[f"torch.nn.modules.module.{name}"] = hooks
    return {name: text for name, text in found.items() if name not in _set_by_trainers}


def differing_settings(sent: Mapping[str, str]) -> list[str]:
    """Return what differs here from what a sender has, for a person to read."""
    here = changed_settings()
    return [
        f"{name}: {sent.get(name, usual)} -> {here.get(name, usual)}"
        for name in sorted(sent.keys() | here.keys())
        if sent.get(name) != here.get(name)
        for usual in [_FLAGS.get(name, "none")]
    ]


def _hooks(module: Any) -> Iterator[tuple[str, str]]:
    for name in _HOOKS:
        if hooks := getattr(module, name, None):
            yield (
                name,
                ", ".join(getattr(each, "__qualname__", type(each).__name__) for each in hooks.values()),
            )
