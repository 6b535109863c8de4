"""Train every config of the recorded spaces once, with Hippo, and write their curves to bench/curves.

A file for each space and training seed: SPACE-SEED.json.gz, which `hippo.Recorded` reads. About ten minutes
of one core for all.

    python bench/record.py [--seeds 0 1 2] [SPACE ...]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import hippotune as hippo
from curve_spaces import EVERY, METRIC, SEEDS, SPACES, Curves
from hippotune.tuners import TrialGroup, Trials

FOLDER = Path(__file__).parent / "curves"
DIGITS = 5


class Everything(hippo.GridSearch):
    """Every config to the end, measured on the way."""

    async def run(self, trials: Trials) -> None:
        trials.submit(TrialGroup.of(self.configs(), self.max_steps, EVERY))
        while trials.open:
            await trials.next()


def record(name: str, curves: Curves, seed: int) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        study = hippo.Study(
            name,
            curves.trainer,
            home=home,
            executor=hippo.Local(workers=1, threads=1),
            seed=seed,
            checkpoint_budget="100MB",
        )
        with study:
            report = study.tune(Everything(curves.space, METRIC, "min", curves.steps), progress=False)
    if report.failed:
        raise SystemExit(f"{len(report.failed)} trials failed: {report.failed[0].error}")
    file = hippo.Recorded(report).write(FOLDER / f"{name}-{seed}.json.gz", DIGITS)
    print(
        f"{file.name}: {len(report.trials)} configs, {report.work.steps_trained:,} steps trained "
        f"(merge rate {report.work.merge_rate:.2f}), {file.stat().st_size:,} bytes, "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("spaces", nargs="*", metavar="SPACE", help=", ".join(SPACES))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    options = parser.parse_args()
    chosen = options.spaces or list(SPACES)
    if unknown := set(chosen) - set(SPACES):
        parser.error(f"no space {', '.join(sorted(unknown))}; expected {', '.join(SPACES)}")
    FOLDER.mkdir(exist_ok=True)
    for name in chosen:
        for seed in options.seeds:
            record(name, SPACES[name], seed)


if __name__ == "__main__":
    main()
