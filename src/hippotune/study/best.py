"""The best result of a tuning, with its trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.sequences.config import Config

if TYPE_CHECKING:
    from hippotune.study.exports import Origin
    from hippotune.trainers.base import Trainer


@dataclass(frozen=True, slots=True)
class Best:
    """The best result: the trial, the step at which it was measured, and the model there.

    Attributes
    ----------
    path : Path | None
        Its checkpoint.
    exported : Path | None
        The file to which it was exported at the end of the tuning, as `export` does; None where there was
        nothing to export as plain data.
    """

    number: int
    config: Config
    step: int
    metrics: Mapping[str, float]
    path: Path | None
    _study: str = field(repr=False)
    _load: Callable[..., Trainer] = field(repr=False)
    exported: Path | None = None
    _export: Callable[[str | Path], Path] | None = field(default=None, repr=False)

    def load(self) -> Trainer:
        """Return a trainer that holds the trained model, made in this process.

        Where its checkpoint is no longer there or damaged, it is trained again.
        """
        return self._load()

    def export(self, path: str | Path) -> Path:
        """Write the model as a file that is read without the trainer's code, and return its path.

        ``torch.load(path, weights_only=True)`` reads it: the `state_dict`s of all modules and optimizers, by
        their paths on the trainer, what the trainer's own ``state_dict()`` returns as "state", where it
        defines that, and the config, step and metrics. A name that ends in ``.safetensors`` gives the
        modules' tensors only.
        """
        if self._export is not None:
            return self._export(path)
        from hippotune.study.exports import export

        return export(self.load(), self.origin, path)

    @property
    def origin(self) -> Origin:
        """What an export says about the model."""
        from hippotune.study.exports import Origin

        return Origin(self._study, self.config, self.step, self.metrics)
