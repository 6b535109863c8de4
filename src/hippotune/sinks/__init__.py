"""Sinks: a study's facts in the tools that people use.

    study.tune(tuner, sinks=[hippo.sinks.TensorBoard("runs"), hippo.sinks.MLflow("sqlite:///mlflow.db")])

Each needs an extra of its own, such as ``pip install 'hippotune[tensorboard]'``, which is imported when the
sink is first used. Your own sink is a class below `Sink`.
"""

from hippotune.sinks.base import Model, Points, Record, Run, RunEnded, RunStarted, Sink, Source
from hippotune.sinks.mlflow import MLflow
from hippotune.sinks.tensorboard import TensorBoard
from hippotune.sinks.trackio import Trackio
from hippotune.sinks.wandb import WandB

__all__ = [
    "MLflow",
    "Model",
    "Points",
    "Record",
    "Run",
    "RunEnded",
    "RunStarted",
    "Sink",
    "Source",
    "TensorBoard",
    "Trackio",
    "WandB",
]
