"""How the cost of merging and scheduling grows with the number of trials.

A space of 100,000 configs over six hyper-parameters (learning-rate schedules, batch size, momentum, weight
decay, optimizer, cutout) is merged into a plan; then all of them are open requests at once, and a worker
takes one lease after the other. The same space with one weight decay in place of a hundred is measured in the
same run.

Times are CPU seconds of one process: on a machine with nothing else to do, seconds.

Bars:
  100,000 trials are merged in at most 15 s, with at most 1.5 GB of memory in all;
  a scheduling decision among 100,000 open requests takes at most 1 ms on average;
  merging costs at most 1.3 times as much a trial at 100,000 trials as at 1,000.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import random
import resource
import time

from harness import Bar, Figures, at_least, run
from hippotune.engine.core import Engine
from hippotune.gc_pause import gc_paused
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import GroupSubmitted, LeaseFailed, Request, WorkerJoined
from hippotune.sequences import Constant, Cosine, Exponential, MultiStep, Piecewise, Sequence, Warmup
from hippotune.sequences.config import Config

STEPS = 120
BARS = [
    Bar("merge_seconds", "at most", 15),
    Bar("memory_gb", "at most", 1.5),
    Bar("decision_ms", "at most", 1),
    Bar("cost_per_trial_ratio", "at most", 1.3),
]


def space(decays: int) -> list[Config]:
    """Return 1,000 configs for every weight decay: however many, schedules part in the same ways."""
    rates: list[Sequence] = [Constant(0.1), Exponential(0.1, 0.95), Exponential(0.1, 0.9), Cosine(0.1, STEPS)]
    rates += [MultiStep(0.1, [first, first + 30], 0.1) for first in (30, 40, 50, 60)]
    rates += [Warmup(5, Cosine(0.1, STEPS - 5)), Warmup(5, MultiStep(0.1, [45, 85], 0.1))]
    axes: dict[str, list[Sequence]] = {
        "weight_decay": [Constant(1e-5 * (1 + number)) for number in range(decays)],
        "lr": rates,
        "bs": [Constant(128), MultiStep(128, [70], 2), MultiStep(128, [40], 2), Constant(256), Constant(64)],
        "momentum": [Constant(0.9), Piecewise([0.9, 0.8], [80])],
        "optimizer": [Constant("sgd"), Constant("adam")],
        "cutout": [Constant(16), Piecewise([16, 18, 20], [80, 100]), Constant(8), Constant(0), Constant(4)],
    }
    product = itertools.product(*axes.values())
    configs = [Config(dict(zip(axes, values, strict=True))) for values in product]
    random.Random(0).shuffle(configs)
    return configs


def merge(configs: list[Config]) -> tuple[float, int]:
    gc.collect()
    plan = Plan()
    began = time.process_time()
    with gc_paused():  # as the engine and `hippo plan` do
        asks = [(plan.place(config, STEPS)[0], STEPS) for config in configs]
        unique = unique_steps(asks)
    return time.process_time() - began, unique


def decisions(configs: list[Config], most: int) -> tuple[float, float, int]:
    """Return the seconds to submit all configs as one group, those of a decision among them, and how many.

    A lease that fails takes along the trials that wait for it alone, so that few trials are done for before
    `most` decisions are made.
    """
    engine = Engine(Plan())
    requests = tuple(Request(number, "scale", number, config, STEPS) for number, config in enumerate(configs))
    began = time.process_time()
    engine.handle(GroupSubmitted(requests), 0.0)
    submitted = time.process_time() - began
    spent, made = 0.0, 0
    event: WorkerJoined | LeaseFailed = WorkerJoined(0)
    while made < most:
        began = time.process_time()
        commands = engine.handle(event, 0.0)
        seconds = time.process_time() - began
        lease = next((command for command in commands if isinstance(command, RunLease)), None)
        if lease is None:
            break
        spent, made = spent + seconds, made + 1
        # The lease ends without having settled anything for others: all the rest stays open.
        event = LeaseFailed(lease.lease, lease.end, "measured", "train")
    return submitted, spent / made, made


def measure(options: argparse.Namespace) -> Figures:
    few = [space(1) for _ in range(20)]
    small = sorted(merge(configs)[0] / len(configs) for configs in few)[len(few) // 2]
    configs = space(math.ceil(options.trials / 1000))[: options.trials]
    seconds, unique = merge(configs)
    large = seconds / len(configs)
    submitted, decision, made = decisions(configs, 1000)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "trials": len(configs),
        "merge_rate": len(configs) * STEPS / unique,
        "merge_seconds": seconds,
        "merge_us_per_trial": large * 1e6,
        "merge_us_per_trial_at_1000": small * 1e6,
        "cost_per_trial_ratio": large / small,
        "submit_seconds": submitted,
        "decision_ms": decision * 1e3,
        "decisions": made,
        "memory_gb": memory / 1e9,
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trials", type=at_least(1), default=100_000, help="trials of the large study (100,000)"
    )


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
