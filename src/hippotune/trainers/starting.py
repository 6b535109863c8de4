"""External roots: trained weights that every trial of a study starts from, identified by their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hippotune.errors import CheckpointError, InvalidInput, MissingExtra, TrainerError
from hippotune.identity.data import file_digest
from hippotune.short import listed

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Start:
    """A file of weights, and the digest of what was in it when the study was opened."""

    path: Path
    digest: str

    def load(self) -> Any:
        """Read the file: a safetensors file, or one that ``torch.load(weights_only=True)`` reads."""
        try:
            found = file_digest(self.path)
        except InvalidInput as error:
            raise CheckpointError(f"start is {self.path}, which a worker cannot find: {error}") from error
        if found != self.digest:
            raise CheckpointError(
                f"start is {self.path}, which has changed since the study was opened; run the script again "
                "to begin a plan from what is in it now"
            )
        try:
            import torch
        except ImportError as error:
            raise MissingExtra("Study(start=...) needs PyTorch: pip install 'hippotune[torch]'") from error
        try:
            if self.path.suffix == ".safetensors":
                from safetensors.torch import load_file

                return load_file(self.path)
            return torch.load(self.path, weights_only=True, map_location="cpu")
        except Exception as error:
            kind = "safetensors" if self.path.suffix == ".safetensors" else "torch.load(weights_only=True)"
            reason = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
            raise TrainerError(
                f"start is {self.path}, which {kind} cannot read: {reason}. Expected the state_dict of a "
                "model, saved by torch or as safetensors, or a Hippo export"
            ) from None


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
        raise TrainerError(f"start does not fit self.{name}: {error}") from None
    if missing:  # tied weights may be in a file once, under one of their names
        own = module.state_dict(keep_vars=True)
        loaded = {id(tensor) for key, tensor in own.items() if key not in missing}
        missing = [key for key in missing if id(own.get(key)) not in loaded]
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
