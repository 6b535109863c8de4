"""``hippo show STUDY``: what came of a study so far."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hippotune import short
from hippotune.cli.columns import aligned, figure, moment
from hippotune.cli.command import Commands, add_command, whole_number
from hippotune.cli.studies import Stored, add_study, opened, read, reading
from hippotune.cli.trial import lines
from hippotune.errors import InvalidInput
from hippotune.gc_pause import gc_paused
from hippotune.history.history import History
from hippotune.history.trial import State, TrialHistory
from hippotune.identity.parts import shown
from hippotune.sequences.config import Config
from hippotune.stages.tree import stage_tree

if TYPE_CHECKING:
    from hippotune.tuners.base import Mode

_DESCRIPTION = """\
Show a study as it is in the store: the work that it took, its best result, its trials, what
failed, and the tree of stages that the trials share; or one of its trials, with its metrics by
step and what its training logged. A study that is being trained is not disturbed, and its code is
not needed."""

_EXAMPLES = """\
of a trial:
  asked      the furthest step that it was asked for
  trained    how far it is trained
  at         the furthest step at which it was measured, and the metrics there
  unfinished not at the requested step: it waits, or was withdrawn, or the study was interrupted
  suspended  its workers were lost again and again: hippo retry, then run the study again

examples:
  hippo show digits                                  by the metric that it was last tuned for
  hippo show digits.py                               the same, by the file that defines it
  hippo show digits --metric val_loss --mode min     by another one
  hippo show digits --trials 100 --no-tree           more trials, and no tree
  hippo show digits --trial 7                        all about one trial
  hippo show digits --trial 7 --log                  and what its training printed
  hippo show digits --web                            in a browser, as it grows"""

_MOST_METRICS = 6
_MOST_NAMED = 8
_LONGEST_ERROR = 300
_NOT_PROVED = ", not proved: provisional"


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "show", "show what came of a study", _DESCRIPTION, _EXAMPLES, run)
    add_study(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="rank by this metric (default: the one that the study was last tuned for)",
    )
    parser.add_argument(
        "--mode", choices=("max", "min"), help="whether more of the metric is better, or less"
    )
    parser.add_argument(
        "--trials", metavar="N", type=whole_number, default=20, help="show at most N trials (default: 20)"
    )
    parser.add_argument(
        "--trial", metavar="NUMBER", type=int, help="show this trial: its config, metrics and logged numbers"
    )
    parser.add_argument("--web", action="store_true", help="show it as a page in a browser, until Ctrl-C")
    parser.add_argument("--port", type=whole_number, help="with --web: serve the page on this port")
    parser.add_argument("--log", action="store_true", help="with --trial: show what its training printed")
    parser.add_argument(
        "--tree",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="draw the stage tree, or leave it out",
    )


def run(options: argparse.Namespace) -> int:
    """Read the study and print it."""
    if options.log and options.trial is None:
        raise InvalidInput("--log shows what the training of a trial printed; say which one with --trial N")
    if options.web:
        return _serve(options)
    with gc_paused():
        _show(options)
    return 0


def _serve(options: argparse.Namespace) -> int:
    if options.url is not None:
        return _let_in(options)
    from hippotune.page.server import PageServer
    from hippotune.page.source import StoredPlan

    with opened(options) as (catalog, info, home):
        source = StoredPlan(catalog, info, home)
        with PageServer(info.key.digest, source, home, options.port, every=1.0) as server:
            print(
                f"study {info.name}: {server.url}",
                "Ctrl-C ends the page, and nothing else",
                sep="\n",
                flush=True,
            )
            server.wait()
    return 0


def _let_in(options: argparse.Namespace) -> int:
    """Print an address of a server's page that works once."""
    from hippotune.serve.client.api import Api
    from hippotune.serve.client.catalog import remote_study

    info, _, _ = remote_study(options.url, options.study, options.plan)
    api = Api(options.url)
    path = api.call("POST", "/logins", kind=dict[str, str])["path"]
    print(f"study {info.name}: {api.url}{path}&plan={info.key.digest}")
    return 0


def _show(options: argparse.Namespace) -> None:
    from rich.console import Console

    from hippotune.view.tree import TreeDrawing

    console = Console(markup=False, emoji=False, highlight=False)
    if options.trial is not None:
        with reading(options) as stored:
            for place, trial in enumerate(stored.history.numbered(options.trial)):
                for line in ([""] if place else []) + list(lines(trial, stored.history.logged(trial))):
                    console.print(line, soft_wrap=True)
                for line in _printed(options.url, stored, trial) if options.log else ():
                    console.print(line, soft_wrap=True)
        return
    stored = read(options)
    history = stored.history
    aim = history.aim(options.metric, options.mode)
    width = console.width if console.is_terminal else None
    for line in Page(stored, aim, options.trials, width).lines():
        console.print(line, soft_wrap=True)
    if options.tree and history.trials:
        console.print()
        console.print(TreeDrawing(stage_tree(history.asks(), scratch=True)))


def _printed(url: str | None, stored: Stored, trial: TrialHistory) -> Iterable[str]:
    """Return what the training of a trial printed, by the logs of the machine that has its home."""
    from hippotune.executors.lease_log import FOLDER
    from hippotune.history.printed import printed, reaches_of
    from hippotune.store.files import checkpoint_folder

    reaches = reaches_of(trial.node, trial.asked)
    if url is None:
        return printed(checkpoint_folder(stored.home, stored.info.key) / FOLDER, reaches)
    from hippotune.serve.client.catalog import remote_printed

    return remote_printed(url, stored.info, reaches)


@dataclass(frozen=True, slots=True)
class Page:
    """A study in lines of text.

    On a terminal, which has a `width`, trials take a line each.
    """

    stored: Stored
    aim: tuple[str, Mode] | None
    most_trials: int
    width: int | None

    @property
    def history(self) -> History:
        """What is stored of the study."""
        return self.stored.history

    def lines(self) -> Iterator[str]:
        """Yield everything but the tree."""
        yield from self._head()
        yield from self._work()
        yield from self._best()
        yield from self._trials()
        yield from self._errors("failed")
        yield from self._errors("suspended")
        if any(trial.suspended for trial in self.history.trials):
            yield f"  to try these again: hippo retry {self.stored.info.name}, then run the study again"

    def _head(self) -> Iterator[str]:
        info, related = self.stored.info, self.stored.related
        yield f"study {info.name}"
        yield f"  trainer {info.key.trainer}, plan {info.key.digest}, last used {moment(info.used)}"
        if sharing := [each.name for each in related if each.key == info.key]:
            yield f"  on the same plan: {', '.join(sorted(sharing))}"
        for other in (each.key.digest for each in related if each.name == info.name):
            changes = self.stored.changes.get(other)
            why = f"; changed from it to this one: {shown(changes, _MOST_NAMED)}" if changes else ""
            yield f"  another plan of it: --plan {other}{why}"

    def _work(self) -> Iterator[str]:
        history, work = self.history, self.history.work()
        states = [trial.state for trial in history.trials]
        counts = ((states.count(state), state) for state in ("done", "unfinished", "failed", "suspended"))
        yield ""
        yield figure(
            "trials", len(states), ", ".join(f"{count:,} {state}" for count, state in counts if count)
        )
        yield figure("steps requested", work.steps_requested)
        rate = f"merge rate {work.steps_requested / work.steps_unique:.2f}" if work.steps_unique else ""
        yield figure("unique steps", work.steps_unique, rate)
        yield figure("steps trained", work.steps_trained, f"in {work.worker_seconds:,.1f} worker-seconds")
        yield figure(
            "steps repeated",
            work.proof_steps,
            f"in {work.proof_seconds:,.1f} worker-seconds, as proofs, of the whole plan",
        )
        yield f"  resumed trials: {history.exactness}"
        yield from (f"    {text}" for text in history.findings)
        if platforms := dict.fromkeys(it.platform for it in history.plan.proofs if it.platform):
            yield f"  proved on: {'; '.join(platforms)}"
        kept = sum(len(node.checkpoints) for node in history.plan.nodes)
        yield figure("checkpoints", kept, f"of the whole plan, {short.size(history.plan.bytes)}")

    def _best(self) -> Iterator[str]:
        best = None if self.aim is None else self.history.best(*self.aim)
        if self.aim is None or best is None:
            return
        metrics = ", ".join(f"{name} {short.metric(value)}" for name, value in best.metrics.items())
        yield ""
        yield f"best by {self.aim[0]} ({self.aim[1]}){'' if self.history.is_proved else _NOT_PROVED}"
        yield f"  trial {best.trial.number} at step {best.step}: {metrics}"
        yield from (f"  {name} = {short.sequence(of)}" for name, of in best.trial.config.items())
        if self.stored.exported is not None:
            yield f"  exported: {self.stored.exported}"

    def _trials(self) -> Iterator[str]:
        trials = self.history.trials if self.aim is None else self.history.ranked(*self.aim)
        shown = trials[: self.most_trials]
        if not shown:
            return
        metrics, (same, differing) = self._metrics(shown), _contrasted(shown)
        if not self.history.is_proved and any(trial.last() for trial in shown):
            yield ""
            yield f"results{_NOT_PROVED}"
        heads = ("trial", "asked", "trained", "at", *metrics, "", *differing)
        rows = [_row(trial, metrics, differing) for trial in shown]
        yield ""
        for line in aligned(heads, rows, left=range(5 + len(metrics) - 1, len(heads))):
            yield line if self.width is None else short.cut(line, self.width)
        if len(trials) > len(shown):
            yield f"… and {len(trials) - len(shown):,} more: see --trials"
        if same:
            yield f"all of these: {short.config(shown[0].config, same)}"

    def _metrics(self, shown: Sequence[TrialHistory]) -> list[str]:
        """Return the metrics to show, the one that counts first."""
        names = dict.fromkeys(self.aim[:1] if self.aim else ())
        for trial in shown:
            if (last := trial.last()) is not None:
                names |= dict.fromkeys(last[1])
        return list(names)[:_MOST_METRICS]

    def _errors(self, state: State) -> Iterator[str]:
        """Yield a line of every error, with the trials that it ended or suspended.

        Of a traceback the last line says most; of what became of a worker, the first.
        """
        found: dict[str, list[str]] = {}
        for trial in self.history.trials:
            if trial.state == state and trial.error is not None:
                lines = trial.error.strip().splitlines()
                line = lines[0 if state == "suspended" else -1]
                found.setdefault(line, []).append(str(trial.number))
        if found:
            yield ""
            yield state
        for line, numbers in found.items():
            word = "trial" if len(numbers) == 1 else "trials"
            more = f" and {len(numbers) - _MOST_NAMED:,} more" if len(numbers) > _MOST_NAMED else ""
            yield f"  {word} {', '.join(numbers[:_MOST_NAMED])}{more}: {short.cut(line, _LONGEST_ERROR)}"


def _contrasted(trials: Sequence[TrialHistory]) -> tuple[list[str], list[str]]:
    """Return the hyper-parameters that are the same in all of these trials, and the others.

    The others are in the order of the room that they take: a line that is too long is cut at its end.
    """
    names = sorted({name for trial in trials for name in trial.config})
    room = {name: max(len(_shown(trial.config, name)) for trial in trials) for name in names}
    first = trials[0].config
    same = [name for name in names if all(trial.config.get(name) == first.get(name) for trial in trials)]
    return same, sorted((name for name in names if name not in same), key=lambda name: room[name])


def _shown(config: Config, name: str) -> str:
    return short.sequence(config[name]) if name in config else ""


def _row(trial: TrialHistory, metrics: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    step, measured = trial.last() or ("", {})
    return (
        str(trial.number),
        f"{trial.asked:,}",
        f"{trial.trained:,}",
        f"{step:,}" if step else "",
        *(short.metric(measured[name]) if name in measured else "" for name in metrics),
        "" if trial.state == "done" else trial.state,
        *(_shown(trial.config, name) for name in names),
    )
