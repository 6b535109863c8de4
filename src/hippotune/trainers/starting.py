"""External roots: trained weights that every trial of a study starts from, identified by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hippotune.errors import CheckpointError, MissingExtra, TrainerError
from hippotune.short import listed

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Start:
    """A file of weights, and the SHA-256 digest of what was in it when the study was opened."""

    path: Path
    digest: str

    def load(self) -> Any:
        """Read the file: a safetensors file, or one that ``torch.load(weights_only=True)`` reads."""
        try:
            with self.path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise CheckpointError(f"start is {self.path}, which cannot be read here: {error}") from error
        if found != self.digest:
            raise CheckpointError(
                f"start is {self.path}, which has changed since the study was opened; run the script again "
                "to begin a plan from what is in it now"
            )
        try:
            import torch
        except ImportError as error:
            raise MissingExtra("Study(start=...) needs PyTorch: pip install 'hippotune[torch]'") from error
        if self.path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(self.path)
        return torch.load(self.path, weights_only=True, map_location="cpu")


def load_modules(modules: Mapping[str, Any], state: Any) -> None:
    """Load a Hippo export, or a `state_dict` for the one module there is, strictly."""
    if not isinstance(state, Mapping):
        raise TrainerError(f"start holds a {type(state).__name__}; expected a state_dict, or a Hippo export")
    if "hippotune" in state and "modules" in state:
        states = state["modules"]
        if states.keys() != modules.keys():
            raise TrainerError(
                f"start is an export of the modules {listed(states)}; on self there are {listed(modules)}. "
                "Override load_start(state) and load what fits"
            )
    elif len(modules) == 1 or "model" in modules:
        name = "model" if "model" in modules else next(iter(modules))
        inner = next(
            (state[key] for key in ("state_dict", "model") if isinstance(state.get(key), Mapping)), state
        )
        states = {name: inner}
    else:
        raise TrainerError(
            f"start is a state_dict for one module, and on self there are {listed(modules) or 'none'}. "
            "Override load_start(state) and say where it goes"
        )
    for name, of_module in states.items():
        _load_strictly(name, modules[name], of_module)


def _load_strictly(name: str, module: Any, state: Mapping[str, Any]) -> None:
    try:
        missing, unexpected = module.load_state_dict(state, strict=False)
    except RuntimeError as error:  # shapes that differ
        raise TrainerError(f"start does not fit self.{name}: {error}") from error
    if missing or unexpected:
        parts = [
            f"{len(keys)} {what} ({listed(keys[:_SHOWN])}{', …' if len(keys) > _SHOWN else ''})"
            for what, keys in (("missing", missing), ("unexpected", unexpected))
            if keys
        ]
        raise TrainerError(
            f"start does not fit self.{name}: keys are {' and '.join(parts)}. Override load_start(state) "
            "and load what fits"
        )
