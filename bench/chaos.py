"""What interrupting costs: studies whose processes are killed, stopped and told to end, and run again.

The studies are those of `studies/noisy.py`: successive halving with late branches, SHA, ASHA, PBT,
Hyperband, TPE, BOHB, HyperSched with a deadline, and on torch SHA and a grid that `Fluid` trains at width 2;
on SQLite and on a PostgreSQL server that is started here. While a script runs, the script (which is the
engine) or its workers get SIGKILL, SIGTERM, Ctrl-C or SIGSTOP (`chaos_life.py`), at moments spread evenly
from its first instruction to a good while after its first trained step. A script that was ended is started
again. When it has come to its end it is run once more, untouched; then a new round begins with the next
study in a new home, until all attacks are spent.

What was trained is counted from a log that the trainer itself writes, a line for every step. Every metric is
compared with that of a plain loop in this process.

Bars, for any number of attacks:
  no metric of any trial differs from the plain loop's: bit for bit, and at width 2 to 9 digits;
  where the order in which trials finish decides nothing, trials and final states are those of an undisturbed
  run, and none is missing; of the other tuners, no trial of a life is another config in a later one;
  the untouched run at the end of a round prints what the run before it printed, and trains nothing
  (HyperSched goes by the clock and is exempt from these two);
  no step is trained again while the plan has its checkpoint, and no more steps than had been trained since
  the last durable checkpoint (and on the way of the one late branch that was not expected); steps that were
  repeated to prove exactness are counted apart, two for each process that was killed in such a step;
  it leaves no file behind that the plan does not know, and every checkpoint of the plan is whole;
  no process, temporary folder, lease or database connection is left over.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg

from chaos_ledger import Ledger
from chaos_life import ATTACKS, Life
from harness import Bar, Figures, run
from hippotune.sequences.config import Config
from hippotune.trainers.session import Session
from studies.noisy import TORCH, trainer_of

sys.path += [str(Path(__file__).parent / "studies"), str(Path(__file__).parents[1] / "tests")]
from postgres import postgresql_server

AFTER_FIRST_STEP = 0.8
"""Attacks come until this many seconds after a life would have trained its first step."""

ATTACKS_A_ROUND = 16
NOTICED_SECONDS = 10.0
CLOSE = 1e-9

PLAIN = ("halving", "asha", "pbt", "hyperband", "tpe", "hypersched", "bohb", "branches")
SYNCHRONOUS = ("branches", "halving", "pbt", "hyperband", "halving on torch", "fluid")
BY_THE_CLOCK = ("hypersched",)

BARS = [
    Bar(figure, "at most", 0)
    for figure in (
        "results_different",
        "results_missing",
        "states_different",
        "decisions_different",
        "answers_different_when_run_again",
        "steps_in_spite_of_a_checkpoint",
        "steps_beyond_what_was_lost",
        "steps_of_untouched_runs",
        "files_unknown",
        "checkpoints_not_whole",
        "processes_left",
        "folders_left",
        "leases_left",
        "connections_left",
    )
]

Printed = list[dict[str, Any]]


@dataclass
class Undisturbed:
    """What came of a kind of study that nothing was done to."""

    trials: Printed
    names: set[str]
    first_step: float
    trained_again: list[str]


class PlainLoop:
    """The truth about metrics: every config trained by itself, from the first step on, in this process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, dict[str, dict[str, float]]]] = {}

    def metrics(self, kind: str, trial: dict[str, Any]) -> dict[str, dict[str, float]]:
        """Return the metrics of a trial at the steps at which it has some, by step."""
        steps = {int(step) for step in trial["metrics"]}
        key = (trainer_of(kind).__name__, trial["config"])
        if key not in self._known or not steps <= {int(step) for step in self._known[key][1]}:
            session = Session(trainer_of(kind), {"log": "/dev/null"}, 0)
            session.start(Config.from_json(trial["json"]), 0, None, warm=False)
            found = {}
            for step in range(1, max(steps, default=0) + 1):
                session.advance()
                if step in steps:
                    found[str(step)] = session.evaluate()
            self._known[key] = (max(steps, default=0), found)
        return self._known[key][1]


def differs(kind: str, expected: dict[str, float], found: dict[str, float]) -> bool:
    """Whether metrics are not what they should be."""
    if kind != "fluid" or expected.keys() != found.keys():
        return expected != found
    return not all(math.isclose(expected[name], found[name], rel_tol=CLOSE) for name in expected)


def run_to_the_end(ledger: Ledger, kind: str) -> tuple[dict[str, Any], float, int]:
    """Run the script to its end; return what it printed, when it was in training, and what was left over."""
    before = len(ledger.trained())
    with Life(ledger.folder, kind, ledger.store) as life:
        life.come_to_its_end()
        first = min((moment for _, moment, _ in ledger.trained()[before:]), default=time.time())
        return life.printed(), first - life.began, life.left_over()


def attacked(
    life: Life, ledger: Ledger, chance: random.Random, first_step: float, most: int
) -> tuple[Counter[str], bool]:
    """Do one thing after the other to a life; return what, and whether the script came to its end."""
    done = Counter[str]()
    span = first_step + AFTER_FIRST_STEP
    while done.total() < most:
        if life.ends_within(chance.uniform(0, span)):
            return done, True
        span = first_step / 2  # about what it takes a worker to come back
        secured = ledger.secured(running=True)
        attack, killed = life.attack(chance)
        done[attack] += 1
        if killed is None:
            return done, False
        ledger.bury(killed, secured)
    life.come_to_its_end()
    return done, True


def lives(
    ledger: Ledger, kind: str, chance: random.Random, first_step: float, most: int
) -> tuple[Counter[str], Printed]:
    """Start the script again and again until it comes to its end; return figures, and what it printed then.

    `first_step` is how long a life takes to its first trained step, as it was last time.
    """
    figures = Counter[str]()
    spent, ended = 0, False
    while not ended:
        before = len(ledger.trained())
        with Life(ledger.folder, kind, ledger.store) as life:
            done, ended = attacked(life, ledger, chance, first_step, most - spent)
            figures["processes_left"] += life.left_over()
        if new := ledger.trained()[before:]:
            first_step = min(moment for _, moment, _ in new) - life.began
        if not ended:
            ledger.bury(None, ledger.secured(running=False))
        spent += done.total()
        figures.update({f"attacks: {attack}": times for attack, times in done.items()})
        figures["attacks"] += done.total()
        figures["lives"] += 1
    return figures, life.printed()["trials"]


def compared(kind: str, expected: Printed, found: Printed, truth: PlainLoop) -> Counter[str]:
    """Compare what a run printed with the plain loop, and where it is synchronous with an undisturbed run."""
    figures = Counter[str]()
    for trial in found:
        metrics = truth.metrics(kind, trial)
        figures["results_compared"] += len(trial["metrics"])
        figures["results_different"] += sum(
            differs(kind, metrics[step], told) for step, told in trial["metrics"].items()
        )
    if kind in SYNCHRONOUS:
        for place, trial in enumerate(expected):
            other = found[place] if place < len(found) else {"config": None, "metrics": {}, "state": None}
            is_other_state = kind != "fluid" and trial["state"] != other["state"]
            figures["states_different"] += trial["config"] != other["config"] or is_other_state
            figures["results_missing"] += len(trial["metrics"].keys() - other["metrics"].keys())
        figures["states_different"] += max(len(found) - len(expected), 0)
    elif kind not in BY_THE_CLOCK:
        figures["results_missing"] += max(len(expected) - len(found), 0)
    return figures


def played(ledger: Ledger, kind: str, calm: Undisturbed, truth: PlainLoop, *chances: Any) -> Counter[str]:
    """Play one round in a home of its own; return its figures."""
    figures, first = lives(ledger, kind, *chances)
    trained, proved = len(ledger.trained()), ledger.proved()
    last, _, left = run_to_the_end(ledger, kind)
    figures["rounds"] += 1
    figures["processes_left"] += left
    figures["leases_left"] += last["leases"]
    figures["folders_left"] += len(list((ledger.folder / "tmp").iterdir()))
    figures["steps_trained"] += trained
    figures.update(compared(kind, calm.trials, last["trials"], truth))
    figures.update(ledger.audit(calm.names))
    if kind not in BY_THE_CLOCK:
        figures["answers_different_when_run_again"] += first != last["trials"]
        new = len(ledger.trained()) - trained - (ledger.proved() - proved)
        figures["steps_of_untouched_runs"] += 0 if kind in TORCH else new
        figures["decisions_different"] += 0 if kind == "branches" else ledger.trials_asked_twice()
    again = len(ledger.trained_again)
    figures["steps_trained_again"] += again
    figures["steps_lost"] += ledger.lost
    excused = ledger.excused()
    figures["steps_that_prove_exactness"] += excused
    figures["steps_in_spite_of_a_checkpoint"] += max(ledger.trained_in_spite - excused, 0)
    if kind == "branches":
        once_more = again - ledger.lost - len(calm.trained_again) - excused
        figures["steps_beyond_what_was_lost"] += max(once_more, 0)
    return figures


@contextmanager
def database(server: str | None, name: str) -> Iterator[str | None]:
    """Make a database for one round, and see that nothing is connected to it in the end."""
    if server is None:
        yield None
        return
    with psycopg.connect(server % "postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server % name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def connections(server: str | None, name: str) -> int:
    """Return how many connections to a database stay; a server notices a closed one after a moment."""
    if server is None:
        return 0
    ends = time.monotonic() + NOTICED_SECONDS
    with psycopg.connect(server % "postgres", autocommit=True) as connection:
        while True:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            row = connection.execute(query, [name]).fetchone()
            assert row is not None
            if row[0] == 0 or time.monotonic() > ends:
                return int(row[0])
            time.sleep(0.05)


def studies(kinds: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield kinds of study for ever, and whether each is on PostgreSQL. Torch starts slowly and is rare."""
    plain = [kind for kind in kinds if kind not in TORCH]
    slow = [kind for kind in kinds if kind in TORCH]
    for turn, on_postgresql in enumerate(cycle((False, True))):
        yield from ((kind, on_postgresql ^ bool(place % 2)) for place, kind in enumerate(plain))
        if slow and (not plain or turn % 2 == 0):
            yield slow[turn // 2 % len(slow)], on_postgresql


def measure(options: argparse.Namespace) -> Figures:
    began = time.monotonic()
    chance = random.Random(options.seed)
    figures = Counter[str](dict.fromkeys(("attacks", *(f"attacks: {attack}" for attack in ATTACKS)), 0))
    calm: dict[str, Undisturbed] = {}
    truth = PlainLoop()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgresql_server()).url if options.postgresql else None
        for kind, on_postgresql in studies(options.kinds):
            if figures["attacks"] >= options.kills:
                break
            where = server if on_postgresql else None
            print(
                f"{figures['attacks']} of {options.kills}: {kind}" + " on PostgreSQL" * (where is not None),
                file=sys.stderr,
            )
            if kind not in calm:
                ledger = Ledger(folder / f"undisturbed-{kind}", None)
                printed, first_step, figures["processes_left"] = run_to_the_end(ledger, kind)
                figures.update(compared(kind, printed["trials"], printed["trials"], truth))
                calm[kind] = Undisturbed(printed["trials"], ledger.names(), first_step, ledger.trained_again)
            name = f"round_{figures['rounds']}"
            with database(where, name) as store:
                ledger = Ledger(folder / name, store, calm[kind].trained_again)
                most = min(options.kills - figures["attacks"], ATTACKS_A_ROUND)
                figures.update(played(ledger, kind, calm[kind], truth, chance, calm[kind].first_step, most))
                figures["rounds_on_postgresql"] += where is not None
                figures["rounds_on_torch"] += kind in TORCH
                figures["connections_left"] += connections(where, name)
            shutil.rmtree(ledger.folder)
            if options.check and (missed := [bar.figure for bar in BARS if figures[bar.figure]]):
                print(f"  missed so far: {missed}", file=sys.stderr)
    barred = {bar.figure: figures.pop(bar.figure, 0) for bar in BARS}
    return {**figures, **barred, "minutes": (time.monotonic() - began) / 60}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=200, help="how many attacks there are (200)")
    parser.add_argument("--seed", type=int, default=0, help="decides what is done when (0)")
    parser.add_argument(
        "--kinds", nargs="+", default=[*PLAIN, *TORCH], choices=[*PLAIN, *TORCH], help="which studies (all)"
    )
    parser.add_argument("--no-postgresql", dest="postgresql", action="store_false", help="SQLite only")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
