"""Feeds a target in a process of its own, and reads it back with the tool's own reader.

    programs.py KIND FOLDER [--stepwise]

Stepwise, it says after each batch how far it is, and goes on when it is told so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hippotune import sinks
from hippotune.identity.key import PlanKey
from hippotune.sinks.feed import Feed
from hippotune.sinks.wandb import STEP, read_history, read_records
from hippotune.store.base import Store
from hippotune.store.catalog import open_store

KEY = PlanKey("Digits", "version:1", "{}", 0)
Shown = list[tuple[str, str, int, float]]
"""Runs, names, steps and numbers, as often as the reader has them."""


def sink(kind: str, folder: Path) -> sinks.Sink:
    match kind:
        case "tensorboard":
            return sinks.TensorBoard(folder / "runs")
        case "mlflow":
            return sinks.MLflow(f"sqlite:///{folder}/mlflow.db")
        case "wandb":
            return sinks.WandB(folder=folder)
        case _:
            return sinks.Trackio()


def tensorboard(folder: Path) -> tuple[Shown, dict[str, Any]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    shown: Shown = []
    configs: dict[str, Any] = {}
    for run in (folder / "runs" / "study").glob("trial-*"):
        events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
        for tag in events.Tags()["scalars"]:
            shown += [(run.name, tag, event.step, event.value) for event in events.Scalars(tag)]
        (content,) = events.PluginTagToContent("hparams").values()
        values = HParamsPluginData.FromString(content).session_start_info.hparams
        configs[run.name] = {name: getattr(value, value.WhichOneof("kind")) for name, value in values.items()}
    return shown, configs


def mlflow(folder: Path) -> tuple[Shown, dict[str, Any]]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("study")
    assert experiment is not None
    shown: Shown = []
    configs: dict[str, Any] = {}
    for run in client.search_runs([experiment.experiment_id]):
        name = run.info.run_name
        assert name is not None
        assert name not in configs, "a run was made twice"
        configs[name] = {key: _plain(value) for key, value in run.data.params.items()}
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            shown += [(name, key, metric.step, metric.value) for metric in history]
        assert run.info.status == "FINISHED"
        files = [file.path for file in client.list_artifacts(run.info.run_id)]
        assert files == (["model.pt"] if name == "trial-2" else [])
    return shown, configs


def _plain(text: str) -> Any:
    return float(text) if text.replace(".", "").isdigit() else text


def wandb(folder: Path) -> tuple[Shown, dict[str, Any]]:
    from wandb import teardown

    teardown()  # its service process writes what it still has, and ends
    models, shown = 0, Shown()
    configs: dict[str, Any] = {}
    for path in sorted((folder / "wandb").glob("offline-run-*/run-*.wandb")):
        name = "trial-" + path.stem.rpartition("-")[2]
        for row in read_history(path):
            step = row.pop(STEP, None)
            numbers = {key: float(value) for key, value in row.items() if not key.startswith("_")}
            shown += [(name, key, step, value) for key, value in numbers.items()]
        if (model := path.parent / "files" / "model.pt").exists():
            assert (name, model.read_bytes()) == ("trial-2", b"weights")
            models += any("model.pt" in str(record.files) for record in read_records(path))
        for run in (record.run for record in read_records(path) if record.HasField("run")):
            items = {item.key: json.loads(item.value_json) for item in run.config.update}
            configs[name] = {key: items[key] for key in ("lr", "optimizer") if key in items}
    assert models
    return shown, configs


def trackio(folder: Path) -> tuple[Shown, dict[str, Any]]:
    from trackio.sqlite_storage import SQLiteStorage

    shown: Shown = []
    configs: dict[str, Any] = {}
    for record in SQLiteStorage.get_run_records("study"):
        name = str(record["name"])
        for row in SQLiteStorage.get_logs("study", name):
            numbers = {key: value for key, value in row.items() if key not in ("step", "timestamp")}
            shown += [(name, key, row["step"], float(value)) for key, value in numbers.items()]
        config = SQLiteStorage.get_run_config("study", name)
        configs[name] = {key: config[key] for key in ("lr", "optimizer")}
    return shown, configs


READERS: dict[str, Callable[[Path], tuple[Shown, dict[str, Any]]]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
    "trackio": trackio,
}


def main(kind: str, folder: Path, stepwise: bool) -> None:
    target = sink(kind, folder)
    if stepwise:
        save = target.save

        def told(number: int) -> None:
            save(number)
            print(number, flush=True)
            sys.stdin.readline()

        target.save = told  # type: ignore[method-assign]
    warnings: list[str] = []
    with open_store(folder / "home", create=False) as catalog:

        @contextmanager
        def view() -> Iterator[Store]:
            yield catalog.view(KEY)

        model = folder / "model.pt"
        model.write_bytes(b"weights")
        feed = Feed(target, view, "study", KEY.digest, True, warnings.append, at_once=15)
        feed.start()
        feed.finish((2, model))
        model.unlink()
    assert not warnings, warnings
    print(json.dumps(READERS[kind](folder)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "--stepwise" in sys.argv)
