"""Several studies at once: on one plan and one pool of workers where their trainers agree."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.shell.loop_thread import PlanClosed
from hippotune.study.limits import Deadline, Limits
from hippotune.study.report import Report
from hippotune.study.study import Study
from hippotune.tuners.base import Tuner


def tune_together(
    pairs: Iterable[tuple[Study, Tuner]],
    *,
    deadline: Deadline | None = None,
    budget: float | None = None,
    progress: bool | None = None,
) -> list[Report]:
    """Run several studies at the same time and return their reports, in the order given.

    Studies with the same trainer, settings, seed and home share one plan and one pool of workers (the
    first one's): what any of them has trained, none trains again. Workers are shared out evenly between
    the studies that have something to run; none is trained before all have asked. Studies with different
    plans run side by side, each on its own workers.

    A `deadline` (seconds from now, a timedelta or a moment) holds for all of them. A `budget` in worker-hours
    is for all of them together: each may take an equal part of it.
    """
    work: list[tuple[Study, Tuner]] = checks.pairs("pairs", pairs, "a study and a tuner")
    for study, tuner in work:
        checks.instance("study", study, Study, "a hippo.Study")
        checks.instance("tuner", tuner, Tuner, "a hippo tuner, such as SuccessiveHalving(...)")
    Limits.of(deadline, budget)  # which says what is wrong with them, before anything is opened
    names = [study.name for study, _ in work]
    if not work:
        raise InvalidInput("tune_together was given no studies; expected pairs of a study and a tuner")
    if len(set(names)) < len(names):
        raise InvalidInput(f"the studies are named {names}; expected every name once")
    if urls := [study._url for study, _ in work if study._url is not None]:
        raise InvalidInput(
            f"tune_together takes studies of this process, and one of these is at {urls[0]}. Studies on a "
            "server share what they train in any case: tune each with study.tune or hippo submit"
        )
    first: dict[tuple[str, str], Study] = {}
    leaders: dict[str, Study] = {}
    for study, _ in work:
        leader = first.setdefault((study._connection.place, study.key.digest), study)
        leaders[study.name] = leader
        study._executor = leader.executor
    reports: list[Report | BaseException | None] = [None] * len(work)

    def run(index: int) -> None:
        study, tuner = work[index]
        try:
            reports[index] = study.tune(
                tuner,
                deadline=deadline,
                budget=None if budget is None else budget / len(work),
                progress=progress if index == 0 else False,
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reports[index] = error
            _stop_waiting_for(leaders[study.name], study.name)

    threads = [threading.Thread(target=run, args=[index], daemon=True) for index in range(1, len(work))]
    try:
        for leader in first.values():
            _expect(leader, [study.name for study, _ in work if leaders[study.name] is leader])
    except BaseException:  # a plan cannot be opened: those that can be are used by others too
        for name, leader in leaders.items():
            _stop_waiting_for(leader, name)
        raise
    with work[0][0]._connection.ending_in_order():
        try:
            for thread in threads:
                thread.start()
            run(0)
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            for leader in first.values():
                leader.halt()
            raise
    finished = [report for report in reports if isinstance(report, Report)]
    for report in reports:
        if isinstance(report, BaseException):
            raise report
    return finished


def _expect(leader: Study, studies: list[str]) -> None:
    """Train nothing until each of these studies, all on one plan, has asked for something."""
    runtime = leader._connection.open()
    runtime.ask(lambda: runtime.loop.expect(studies))


def _stop_waiting_for(leader: Study, study: str) -> None:
    """Do not wait for a study any more: it will never ask."""
    if (runtime := leader._connection.runtime) is not None:
        with suppress(PlanClosed):
            runtime.ask(lambda: runtime.loop.has_begun(study))
