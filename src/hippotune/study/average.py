"""The mean of several trials' weights: a leaf of the tree, evaluated and exported, never trained from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config
from hippotune.study.exports import Origin, export
from hippotune.trainers import seeding
from hippotune.trainers.base import Trainer
from hippotune.trainers.export import find_parts
from hippotune.trainers.metrics import checked_metrics

if TYPE_CHECKING:
    from hippotune.study.study import Study


@dataclass(frozen=True)
class Average:
    """The mean of the weights of several trials at a step.

    Attributes
    ----------
    configs : tuple[Config, ...]
        The trials that it is the mean of.
    step : int
        How far each of them was trained.
    metrics : Mapping[str, float]
        What `evaluate` says of the mean.
    trainer : Trainer
        A trainer that holds it.
    """

    configs: tuple[Config, ...]
    step: int
    metrics: Mapping[str, float]
    trainer: Trainer
    _study: str

    def export(self, path: str | Path) -> Path:
        """Write the mean for other programs, as `Study.export` writes a model."""
        return export(self.trainer, Origin(self._study, self.configs[0], self.step, self.metrics), path)


def average(study: Study, configs: Sequence[Config], step: int) -> Average:
    """Load the trials, training what is missing, and take the mean of all weights that are floats."""
    if not configs:
        raise InvalidInput("configs is empty; expected the trials to average")
    trainers = [study.load(config, step) for config in configs]
    mean = trainers[0]
    states = [_weights(trainer) for trainer in trainers]
    if not states[0]:
        raise InvalidInput(
            f"{type(mean).__name__} has no torch module on self: there are no weights to average"
        )
    for path, weights in states[0].items():
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                total = sum(other[path][name].double() for other in states)
                tensor.copy_((total / len(states)).to(tensor.dtype))
    with seeding.put_back(), mean.around("evaluate"):
        metrics = checked_metrics(mean.evaluate())
    return Average(tuple(configs), step, metrics, mean, study._listed_name)


def _weights(trainer: Trainer) -> dict[str, dict[str, Any]]:
    """Return the tensors of all modules on a trainer, which share their memory with it."""
    return {path: dict(module.state_dict()) for path, module in find_parts(trainer).modules.items()}
