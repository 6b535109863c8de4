"""The four studies of the Hippo paper's Table 5 for real, on the GPUs of a machine: alone, and shared.

NOT YET RUN: no figure of the documentation comes from here. The program needs GPUs, data, and days: trial by
trial, the paper's own studies took from 375 to 945 GPU-hours. The space is one draw of `paper_spaces.py` at
the published merge rate; tuners, rungs and the last 100 epochs of image studies are those of paper.py.
Networks are in `paper_gpu_images.py` and `paper_gpu_bert.py`. It prints GPU-hours and hours to the end of
both ways, and their ratios beside the published ones against trial by trial. GPU-hours are all that workers
were held for: training, rehearsal, audits, and the interpreters that a rehearsal starts.

Ray Tune's column is not rerun. Where there are GPUs, each worker has one of its own.

    python bench/paper_gpu.py --study resnet56_sha --data cifar-10-batches-py --workers 8 [--draw 3]
    python bench/paper_gpu.py --study bert_grid --data squad --model bert-base-uncased --workers 8
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

import hippotune as hippo
from harness import Figures, run
from hippotune.study import Work
from hippotune.study.report import best_result
from hippotune.tuners import TrialGroup, Trials, Tuner
from paper import STUDIES, claims


class Further(Tuner):
    """A tuner, and then the best of its trials some steps further."""

    def __init__(self, tuner: Tuner, steps: int) -> None:
        self._tuner, self._steps = tuner, steps
        self.metric, self.mode = tuner.metric, tuner.mode

    async def run(self, trials: Trials) -> None:
        heard = _Heard(trials)
        await self._tuner.run(heard)
        best = best_result(heard.results, self.metric, self.mode)
        if self._steps and best is not None:
            await trials.all(trials.submit(TrialGroup.of([best.trial], best.step + self._steps)))


class _Heard:
    """Passes everything on, and keeps the results."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.results: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trials, name)

    async def next(self) -> Any:
        self.results.append(await self._trials.next())
        return self.results[-1]

    async def all(self, trials: Any) -> list[Any]:
        found = await self._trials.all(trials)
        self.results += found
        return found


def trainer_of(study: str) -> type[hippo.Trainer]:
    if study == "bert_grid":
        from paper_gpu_bert import BertSquad  # here, because only this study needs transformers

        return BertSquad
    from paper_gpu_images import MobileNetV2, ResNet56

    return MobileNetV2 if study == "mobilenetv2_grid" else ResNet56


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return a trainer's settings, or end with a line that says what a folder should hold."""
    if options.study != "bert_grid":
        _expect("--data", options.data, "cifar-10-batches-py of CIFAR-10", "data_batch_5", "test_batch")
        return {"data": str(options.data.absolute())}
    _expect("--data", options.data, "SQuAD 1.1", "train-v1.1.json", "dev-v1.1.json")
    _expect("--model", options.model, "a BERT model with its tokenizer", "config.json", "tokenizer.json")
    folders = {"data": str(options.data.absolute()), "model": str(options.model.absolute())}
    return {**folders, "batch_size": options.batch_size}


def _expect(option: str, folder: Path | None, what: str, *files: str) -> None:
    expected = f"expected the folder of {what}, with {' and '.join(files)}"
    if folder is None:
        raise SystemExit(f"{option} is missing; {expected}")
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise SystemExit(f"{option} is {folder}, which has no {missing[0]}; {expected}")


def executor_of(workers: int) -> hippo.Local:
    """Return workers with a GPU each; without any on this machine, processes that compute on its cores."""
    if workers > (gpus := torch.cuda.device_count()) > 0:
        raise SystemExit(
            f"--workers is {workers}; this machine has {gpus} GPUs, expected one for each worker"
        )
    return hippo.Local(workers=workers)


def gpu_hours(work: Work) -> float:
    """Return what workers were held for, with all proofs."""
    return (work.worker_seconds + work.proof_seconds + work.proof_startup_seconds) / 3600


def measure(options: argparse.Namespace) -> Figures:
    study, settings = STUDIES[options.study], settings_of(options)
    trainer, space = trainer_of(options.study), study.space.draw(options.draw)
    figures: dict[str, float] = {"merge_rate": space.merge_rate(study.space.steps)}
    for way in ("shared", "alone"):
        with (
            tempfile.TemporaryDirectory(dir=options.scratch) as home,
            hippo.Study(
                way,
                trainer,
                home=home,
                executor=executor_of(options.workers),
                settings=settings,
                share=way == "shared",
            ) as opened,
        ):
            work = opened.tune(Further(study.tuner(space), study.further)).work
        figures[f"gpu_hours_{way}"] = gpu_hours(work)
        figures[f"gpu_hours_of_proofs_{way}"] = gpu_hours(work) - work.worker_seconds / 3600
        figures[f"hours_{way}"] = work.wall_seconds / 3600
    published = claims(study)
    figures["gpu_hour_ratio"] = figures["gpu_hours_alone"] / figures["gpu_hours_shared"]
    figures["gpu_hour_ratio_published"] = published["ratio"]
    figures["hour_ratio"] = figures["hours_alone"] / figures["hours_shared"]
    figures["hour_ratio_published"] = published["hour_ratio"]
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--study", choices=STUDIES, required=True)
    parser.add_argument("--data", type=Path, help="the folder of CIFAR-10, or of SQuAD 1.1 for bert_grid")
    parser.add_argument("--model", type=Path, help="bert_grid: the folder of BERT-Base and its tokenizer")
    parser.add_argument("--batch-size", type=int, default=32, help="bert_grid: questions in a batch (32)")
    parser.add_argument("--workers", type=int, default=max(torch.cuda.device_count(), 1), help="one a GPU")
    parser.add_argument("--draw", type=int, default=0, help="which draw of the space (0)")
    parser.add_argument("--scratch", type=Path, help="where checkpoints are kept meanwhile")


if __name__ == "__main__":
    run(__doc__, measure, [], arguments)
