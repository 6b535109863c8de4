"""``hippo plan FILE``: what a study would share and what it would cost, without training anything."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hippotune import short
from hippotune.cli.columns import figure
from hippotune.cli.command import Commands, add_command, add_file, whole_number
from hippotune.cli.script import Script, load
from hippotune.errors import InvalidInput, StoreError
from hippotune.gc_pause import gc_paused
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, unique_steps
from hippotune.sequences.config import Config
from hippotune.spaces.advice import advise
from hippotune.spaces.sharing import sharing
from hippotune.stages.tree import StageTree, stage_tree
from hippotune.study.step_times import on_one_slot, speeds_of, stored
from hippotune.study.study import Study
from hippotune.tuners import BOHB, PBT, OptunaSearch, TrialList, Tuner
from hippotune.tuners.space_tuner import SpaceTuner

_DESCRIPTION = """\
Show what the study that FILE defines would share and what it would cost. Nothing is trained,
no worker is started and no file is written.

Every trial is taken at its full length, as if none were stopped early. Where other schedules
would share noticeably more, they are named with the merge rate that they give. What the study's
plan holds already, from earlier runs or from other studies of the same trainer, is left out of
the steps that are left."""

_EXAMPLES = """\
in the tree:
  trials    how many trials pass the stage: it is trained once for all of them
  asked     how many of them end with it
  a label   the values that tell a stage from those that start where it does

examples:
  hippo plan digits.py                 figures, and as much of the stage tree as fits
  hippo plan digits.py --no-tree       only the figures
  hippo plan digits.py --depth 4       the first four levels of branches, in full
  hippo plan digits.py --steps 30      the same for trials of 30 steps
  hippo plan digits.py --workers 1,8,40 --seconds 30
                                       what it would cost on 1, 8 and 40 workers"""

_MOST_COMPARED = 20_000
"""Configs times hyper-parameters up to which the cost in sharing of each hyper-parameter is worked out."""
_MOST_BRANCHES = 3


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    summary = "show what a study would share and cost, without training"
    parser = add_command(commands, "plan", summary, _DESCRIPTION, _EXAMPLES, run)
    add_file(parser)
    parser.add_argument(
        "--steps",
        metavar="N",
        type=whole_number,
        help="the length of a trial (default: the tuner's max_steps)",
    )
    parser.add_argument(
        "--workers",
        metavar="N,N,…",
        type=_numbers,
        help="predict worker-hours and hours to the end on N workers, shared and unshared, by running "
        "the tuner in virtual time",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        help="seconds that a step takes, for --workers (default: as measured in the plan, else 1)",
    )
    parser.add_argument(
        "--tree",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="draw the stage tree, or leave it out",
    )
    parser.add_argument(
        "--depth",
        metavar="N",
        type=whole_number,
        help="draw this many levels of branches in full (default: as much as fits into a screen)",
    )


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as ``1,8,40``."""
    return [whole_number(number) for number in text.split(",")]


def run(options: argparse.Namespace) -> int:
    """Work the figures out and print them."""
    from rich.console import Console

    from hippotune.view.tree import TreeDrawing

    script = load(options.file, options.arguments, options.module)
    outlook = Outlook.of(script, options.steps)
    console = Console(markup=False, emoji=False, highlight=False)
    for line in outlook.lines():
        console.print(line, soft_wrap=True)
    if options.workers:
        from hippotune.study.estimates import estimate, format_estimates

        rows = estimate(script.study, script.tuner, options.workers, options.seconds)
        console.print()
        console.print(format_estimates(rows), soft_wrap=True)
    if options.tree:
        console.print()
        console.print(TreeDrawing(outlook.tree, options.depth))
    return 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored for a study: its plan, and how long a step took. `doubt` says why it cannot be read."""

    plan: Plan
    seconds_per_step: float | None = None
    doubt: str | None = None

    @classmethod
    def of(cls, study: Study) -> Known:
        """Read what is stored; nothing is made where nothing is."""
        try:
            facts, recorded = stored(study)
        except StoreError as error:
            return cls(Plan(), doubt=str(error))
        trained = on_one_slot(recorded, speeds_of(study))
        steps = sum(timed.steps for timed in trained)
        seconds = sum(timed.seconds for timed in trained)
        return cls(Plan.replay(facts), seconds / steps if steps else None)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a study is up to: all of its trials at their full length."""

    script: Script
    asks: list[tuple[Config, int]]
    unique: int
    left: StageTree
    tree: StageTree
    known: Known

    @classmethod
    def of(cls, script: Script, steps: int | None) -> Outlook:
        """Place all trials in the plan, in memory."""
        study, tuner = script.study, script.tuner
        if not isinstance(tuner, SpaceTuner | TrialList) or isinstance(tuner, PBT):
            raise InvalidInput(
                f"`tuner` in {script.file} is of the kind {type(tuner).__name__}, which makes up configs "
                "as it goes; hippo plan needs one that starts from the configs of a space, such as hippo.ASHA"
            )
        asks = [(study._completion(config), steps or length) for config, length in tuner.asks()]
        known = Known.of(study)
        afresh = not known.plan.nodes
        with gc_paused():
            placed = [
                (known.plan.place(config, length, "" if study.share else str(number))[0], length)
                for number, (config, length) in enumerate(asks)
            ]
            tree = stage_tree(placed, scratch=True)
            left = tree if afresh else stage_tree(ask for ask in placed if not _is_settled(known.plan, *ask))
            return cls(script, asks, unique_steps(placed), left, tree, known)

    @property
    def steps(self) -> int:
        """How many steps are asked for, with nothing shared."""
        return sum(length for _, length in self.asks)

    @property
    def merge_rate(self) -> float:
        """Steps without sharing for every step with it."""
        return self.steps / self.unique

    def lines(self) -> Iterator[str]:
        """Yield the figures."""
        study, lengths = self.script.study, sorted({length for _, length in self.asks})
        yield f"study {study.name} in {self.script.file}, {type(self.script.tuner).__name__}"
        yield ""
        each = f"{lengths[0]:,} to {short.plural(lengths[-1], 'step')}" if lengths[1:] else None
        yield figure("trials", len(self.asks), f"of {each or short.plural(lengths[0], 'step')} each")
        yield figure("steps requested", self.steps)
        remark = "" if study.share else ": the study does not share"
        yield figure("unique steps", self.unique, f"merge rate {self.merge_rate:.2f}{remark}")
        yield from self._remainder()
        if _learns(self.script.tuner):
            yield ""
            yield "The tuner proposes configs by what it learns; these were drawn from its space at random."
        if study.share:
            yield from self._branches()
            yield from self._costs()

    def _remainder(self) -> Iterator[str]:
        left, chain = self.left.steps, self.left.longest_chain
        yield figure("steps left", left, "" if left == self.unique else "the others are done already")
        if self.known.doubt is not None:
            yield f"  (what is stored could not be read: {self.known.doubt})"
        if not left:
            return
        busy = short.plural(-(-left // chain), "worker")
        yield figure("longest chain", chain, f"steps in a row: enough work for {busy}")
        workers = self.script.study.executor.workers
        if (pace := self.known.seconds_per_step) is not None:
            time = short.roughly(pace * max(chain, left / workers))
            yield f"  about {time} on {short.plural(workers, 'worker')}, at {pace:.3g} s a step"

    def _branches(self) -> Iterator[str]:
        """Say which branches cost most, and what a further one would cost."""
        from hippotune.view.tree import stretches, told_apart

        siblings = stretches(self.tree)
        while len(siblings) == 1:
            siblings = siblings[0].below
        if not siblings:
            return
        at, last = siblings[0].start, max(each.last for each in siblings)
        largest = sorted(siblings, key=lambda each: -each.steps)[:_MOST_BRANCHES]
        labels = told_apart(largest, siblings)
        width = max(map(len, labels))
        yield ""
        yield f"{len(siblings):,} branches at step {at:,}, where the first trials part; the largest:"
        for stretch, label in zip(largest, labels, strict=True):
            steps, trials = short.plural(stretch.steps, "step"), short.plural(stretch.trials, "trial")
            yield f"  {label:<{width}}  {steps} for {trials}, {stretch.steps / self.unique:.0%} of all"
        forks = [stage.end for stage in self.tree.stages() if len(stage.below) > 1]
        latest = max(forks, default=at)
        later = f"; one at step {latest:,}, {short.plural(last - latest, 'step')}" if latest > at else ""
        yield f"another branch at step {at:,} costs {short.plural(last - at, 'step')}{later}"

    def _costs(self) -> Iterator[str]:
        """Say which hyper-parameter stands in the way of more sharing, and what would help."""
        names = {name for config, _ in self.asks for name in config.names}
        if not 1 < len(names) * len(self.asks) <= _MOST_COMPARED:
            return
        rates = sharing([config for config, _ in self.asks], [length for _, length in self.asks])
        rates = {name: without for name, without in rates.items() if without > self.merge_rate * 1.005}
        yield from _table("merge rate if all trials had the same:", rates.items())
        yield from _table("merge rate with other schedules, all trials still different:", advise(self.asks))


def _is_settled(plan: Plan, node: Node, step: int) -> bool:
    """Whether a trial needs no more training: its result is there, or it cannot be had."""
    holder = node.holder(step)
    is_known = step in holder.metrics or step in holder.unmeasured
    return is_known or plan.failure_on_the_way(node, step) is not None


def _learns(tuner: Tuner) -> bool:
    """Whether the tuner's configs depend on results."""
    return isinstance(tuner, BOHB | OptunaSearch) or getattr(tuner, "sampler", None) is not None


def _table(title: str, rates: Iterable[tuple[str, float]]) -> Iterator[str]:
    rows = list(rates)
    if rows:
        yield ""
        yield title
        width = max(len(name) for name, _ in rows)
        for name, rate in rows:
            yield f"  {name:<{width}}  {rate:,.2f}"
