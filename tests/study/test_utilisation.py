"""How busy the workers were: in the report, in what is shown on the way, and in the spans that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import hippotune as hippo
from hippotune import Fluid, Study
from hippotune.sequences import Config, MultiStep
from hippotune.study.report import Report
from hippotune.study.work import Work
from hippotune.tuners.base import TrialGroup, Trials, Tuner
from hippotune.view import Snapshot
from study.walkers import Walker

LONG = Config({"lr": 0.1, "bs": 16})
BRANCH = Config({"lr": MultiStep(0.1, [40], 0.1), "bs": 16})


class Asks(Tuner):
    """Asks for everything at once; looks at how things go when a result comes."""

    metric, mode = "loss", "min"

    async def run(self, trials: Trials) -> None:
        trials.submit(TrialGroup(((LONG, 100), (BRANCH, 60)), every=50))
        while trials.open:
            await trials.next()


def tuned(home: Path, width: Fluid | None, workers: int = 4) -> Report:
    study = Study("busy", Walker, home=home, executor=hippo.Simulated(workers), width=width)
    with study:
        return study.tune(Asks(), progress=False)


def busy(report: Report) -> float:
    """Return the time of whole slots in the spans of a report, proofs apart."""
    spans = [span for span in report._trace.spans if span.kind != "proof"]
    return sum((span.ended - span.began) * span.width for span in spans)


def test_a_report_tells_how_busy_the_workers_were(tmp_path: Path) -> None:
    report = tuned(tmp_path, None)
    assert report.work.wall_seconds == 100
    assert report.work.utilisation == 120 / (4 * 100)
    assert "120.0 worker-seconds (30% busy)" in str(report)


@pytest.mark.parametrize("width", [Fluid(), Fluid(packing=2), Fluid(max_width=2)])
def test_at_any_width_it_is_the_time_of_slots_at_work_over_all_there_was(
    tmp_path: Path, width: Fluid
) -> None:
    report = tuned(tmp_path, width)
    assert report.work.worker_seconds == pytest.approx(busy(report))
    assert report.work.utilisation == pytest.approx(busy(report) / (4 * report.work.wall_seconds))
    assert report.work.utilisation > tuned(tmp_path, None).work.utilisation
    busy_share = f"{report.work.utilisation:.0%} busy"
    assert busy_share in report.plot_timeline().layout.title.text
    assert busy_share in str(report.work)


def test_nothing_is_busy_where_no_time_went_by() -> None:
    assert Work(10, 10, 0, 10, 0.0, 0.0, 4).utilisation == 0.0


def test_what_is_shown_on_the_way_counts_every_worker_of_a_wide_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Snapshot] = []
    from hippotune.shell.loop import Loop
    from hippotune.study.progress import Progress

    began: list[Progress] = []
    begin, handle = Progress.begin, Loop.handle
    monkeypatch.setattr(Progress, "begin", lambda self, tuning: (began.append(self), begin(self, tuning))[1])

    def looked(loop: Loop, event: object) -> None:
        handle(loop, event)  # type: ignore[arg-type]
        if began:
            shown.append(began[0]._take())

    monkeypatch.setattr(Loop, "handle", looked)
    tuned(tmp_path, Fluid(max_width=2), workers=2)
    together = [shot for shot in shown if any(line.leader is not None for line in shot.workers)]
    assert together
    for shot in together:
        leader, peer = shot.workers
        assert (leader.width, peer.width, peer.leader) == (2, 2, 0)
        assert (leader.at, leader.config) == (peer.at, peer.config)
        assert 0 <= shot.utilisation <= 1
    assert together[-1].utilisation > 0.8


def test_what_others_trained_on_the_plan_is_not_taken_off_what_was_saved() -> None:
    alone = Work(240, 180, 180, 0, 1.0, 1.0, 1)
    assert "1.0 s on 1 worker, 1.0 worker-seconds" in str(alone)
    assert str(alone).startswith("240 steps requested, 180 trained, 60 saved (merge rate 1.33)\n")
    beside_others = Work(240, 180, 900, 0, 1.0, 1.0, 1)
    told = "240 steps requested, 180 unique steps, 900 trained on the plan meanwhile (merge rate 1.33)\n"
    assert str(beside_others).startswith(told)
