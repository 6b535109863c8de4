"""What stays behind of crashes: one process that runs studies for half an hour while their workers die.

This process is the engine of one study after the other, each in a new home: successive halving on two
workers, whose trainer (`studies/crashing.py`) ends its process in one step of forty, by SIGKILL or by an
exit. After each study, with everything closed, the process is measured, with the fork server that outlives
its studies. A plan grows with its trials, and goes with its study: what is left after a study must not grow
from study to study.

The first quarter of the time is for warming up. Of the rest, the first half is compared with the second.

Bars:
  memory grows by at most 2 %, by the medians of both halves;
  the highest number of descriptors and of threads does not grow;
  no process and no temporary folder is left after any study;
  every study gives the same results, whatever died on the way, and none of its trials fails;
  workers die at least five times a minute.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

import hippotune as hippo
from harness import Bar, Figures, run
from studies.crashing import Crashing

BARS = [
    Bar("memory_growth_percent", "at most", 2),
    Bar("descriptors_growth", "at most", 0),
    Bar("threads_growth", "at most", 0),
    Bar("processes_left", "at most", 0),
    Bar("folders_left", "at most", 0),
    Bar("results_different", "at most", 0),
    Bar("trials_failed", "at most", 0),
    Bar("deaths_a_minute", "at least", 5),
]

REAPED_SECONDS = 5.0
SPACE = {"lr": [hippo.MultiStep(lr, [at], 0.5) for lr in range(1, 9) for at in (4, 8, 16)]}

Results = list[dict[int, dict[str, float]]]


@dataclass(frozen=True)
class Sample:
    """What the process holds after a study, and what came of that."""

    at: float
    megabytes: float
    descriptors: int
    threads: int
    processes_left: int
    folders_left: int
    different: bool
    failed: int


def lasting(root: psutil.Process) -> list[psutil.Process]:
    """Return the processes that outlive a study: this one, and the fork server, which waits for the next."""
    servers = [each for each in root.children() if "hippotune.executors.local.fork_server" in each.cmdline()]
    return [root, *servers]


def left_over(root: psutil.Process, lasts: list[psutil.Process]) -> list[psutil.Process]:
    """Return what a study has left. A dead process that the fork server is about to reap is nothing."""
    _, alive = psutil.wait_procs(set(root.children(recursive=True)) - set(lasts), timeout=REAPED_SECONDS)
    for process in alive:
        print(f"left over: {process}", file=sys.stderr)
    return alive


def one_study(folder: Path, deaths: Path) -> tuple[Results, int]:
    """Run a study in a new home; return its results, and how many of its trials failed."""
    home = folder / "home"
    executor = hippo.Local(workers=2)
    tuner = hippo.SuccessiveHalving(SPACE, metric="loss", mode="min", min_steps=4, max_steps=32, reduction=2)
    settings = {"deaths": str(deaths)}
    retries = hippo.Retries(1000, pause=0.05)
    with hippo.Study(
        "soak", Crashing, home=home, executor=executor, settings=settings, retries=retries
    ) as study:
        report = study.tune(tuner, progress=False)
    shutil.rmtree(home)
    results = [{step: dict(metrics) for step, metrics in trial.metrics.items()} for trial in report.trials]
    return results, sum(trial.error is not None for trial in report.trials)


def sampled(folder: Path, deaths: Path, began: float, expected: Results) -> Sample:
    """Run a study, compare its results and keep nothing of it, then measure this process."""
    results, failed = one_study(folder, deaths)
    different = results != expected
    del results
    gc.collect()
    me = psutil.Process()
    lasts = lasting(me)
    return Sample(
        time.monotonic() - began,
        sum(each.memory_info().rss for each in lasts) / 2**20,
        sum(each.num_fds() for each in lasts),
        sum(each.num_threads() for each in lasts),
        len(left_over(me, lasts)),
        len(list((folder / "tmp").iterdir())),
        different,
        failed,
    )


def measure(options: argparse.Namespace) -> Figures:
    began = time.monotonic()
    seconds = options.minutes * 60
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")  # whatever is left there is counted
        deaths = folder / "deaths"
        deaths.touch()
        expected, _ = one_study(folder, deaths)
        while time.monotonic() - began < seconds or len(samples) < 4:
            samples.append(sampled(folder, deaths, began, expected))
            last = samples[-1]
            print(
                f"{last.at / 60:.1f} min: {len(samples)} studies, {deaths.stat().st_size} deaths, "
                f"{last.megabytes:.1f} MB, {last.descriptors} descriptors, {last.threads} threads",
                file=sys.stderr,
            )
        died = deaths.stat().st_size
    minutes = (time.monotonic() - began) / 60
    steady = samples[len(samples) // 4 :]
    before, after = steady[: len(steady) // 2], steady[len(steady) // 2 :]
    memory = [median(sample.megabytes for sample in half) for half in (before, after)]
    return {
        "minutes": minutes,
        "studies": len(samples),
        "deaths": died,
        "megabytes": memory[1],
        "descriptors": after[-1].descriptors,
        "threads": after[-1].threads,
        "memory_growth_percent": (memory[1] / memory[0] - 1) * 100,
        "descriptors_growth": max(s.descriptors for s in after) - max(s.descriptors for s in before),
        "threads_growth": max(s.threads for s in after) - max(s.threads for s in before),
        "processes_left": sum(sample.processes_left for sample in samples),
        "folders_left": sum(sample.folders_left for sample in samples),
        "results_different": sum(sample.different for sample in samples),
        "trials_failed": sum(sample.failed for sample in samples),
        "deaths_a_minute": died / minutes,
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5, help="how long (5)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
