"""``hippo log STUDY --to TARGET``: what a study has come to, in another tool."""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_study, opened
from hippotune.errors import InvalidInput
from hippotune.scratch import Scratch
from hippotune.study.exports import find_export

if TYPE_CHECKING:
    from hippotune.sinks import Sink
    from hippotune.sinks.feed import OpenStore
    from hippotune.store.catalog import StudyInfo

_DESCRIPTION = """\
Write a study to TensorBoard, MLflow, Weights & Biases or Trackio, from its first result on:
configs, metrics, what training logged, what steps took, and the best model where the tool keeps
files. What the target has already is not written again: run it as often as you like, also while
the study runs."""

_EXAMPLES = """\
examples:
  hippo log digits --to tensorboard:runs            event files in the folder runs
  hippo log digits --to mlflow:sqlite:///mlflow.db  or http://host:5000
  hippo log digits --to wandb:project               offline, below ./wandb
  hippo log digits --to trackio:project
  hippo log digits --to tensorboard:runs --follow   and new results, until Ctrl-C
  hippo log digits --to tensorboard:runs --url http://host:8477    a study on a server"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    summary = "write a study to TensorBoard, MLflow, W&B or Trackio"
    parser = add_command(commands, "log", summary, _DESCRIPTION, _EXAMPLES, run)
    add_study(parser)
    parser.add_argument(
        "--to",
        metavar="TARGET",
        action="append",
        required=True,
        help="tensorboard, mlflow, wandb or trackio, then a colon and the place; may be given several times",
    )
    parser.add_argument(
        "--runs",
        choices=["trial", "stage"],
        default="trial",
        help="a run for each trial (the default), or for each stretch of the stage tree",
    )
    parser.add_argument("--follow", action="store_true", help="keep writing new results, until Ctrl-C")


def run(options: argparse.Namespace) -> int:
    """Feed the targets, and say what they could not take."""
    from hippotune.history.studies import asked_as
    from hippotune.sinks.feed import Feed

    sinks = [parse(target, options.runs) for target in options.to]
    warnings: list[str] = []
    with _source(options) as (log, info, find_model):
        study, share = asked_as(info)
        feeds = [Feed(sink, log, study, info.key.digest, share, warnings.append) for sink in sinks]
        for feed in feeds:
            feed.start()
        try:
            if options.follow:
                threading.Event().wait()
        except KeyboardInterrupt:
            pass
        model = find_model()
        for feed in feeds:
            feed.finish(model)
    for warning in warnings:
        print(f"hippo: {warning}")
    return 1 if warnings else 0


FindModel = Callable[[], tuple[int, Path] | None]


@contextmanager
def _source(options: argparse.Namespace) -> Iterator[tuple[OpenStore, StudyInfo, FindModel]]:
    """Yield what opens the log of a study, the study's entry, and what finds the model of its best trial."""
    if options.url is not None:
        from hippotune.serve.client.logs import RemoteLog

        with Scratch() as folder:
            remote = RemoteLog(options.url, options.study, options.plan, folder)
            yield remote.open, remote.info, remote.model
        return
    with opened(options) as (catalog, info, home):

        def model() -> tuple[int, Path] | None:
            exported = find_export(home, info.name, info.made)
            number = None if exported is None else re.match(r"trial-(\d+)-", exported.name)
            return None if exported is None or number is None else (int(number[1]), exported)

        yield lambda: nullcontext(catalog.view(info.key)), info, model


def parse(target: str, runs: str) -> Sink:
    """Make the sink that a text such as ``tensorboard:runs`` names."""
    from hippotune import sinks

    kind, _, where = target.partition(":")
    make: dict[str, Callable[[str], Sink]] = {
        "tensorboard": lambda folder: sinks.TensorBoard(folder or "runs", runs),
        "mlflow": lambda uri: sinks.MLflow(uri or "sqlite:///mlflow.db", runs=runs),
        "wandb": lambda project: sinks.WandB(project or None, runs=runs),
        "trackio": lambda project: sinks.Trackio(project or None, runs=runs),
    }
    if kind not in make:
        raise InvalidInput(
            f"--to is {target!r}; expected one of {', '.join(make)}, as in --to tensorboard:runs"
        )
    return make[kind](where)
