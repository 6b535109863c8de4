"""The last tasks are ordered so that workers end together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hippotune as hippo
from hippotune.scheduling.tail import first_task
from hippotune.stages.frontier import Frontier
from hippotune.stages.tasks import Task

Choose = Callable[[Sequence[float], Sequence[float]], int]


def end(times: Sequence[float], workers: int, choose: Choose) -> float:
    """Return when all tasks are done, if each worker starts what is chosen as soon as it is free."""
    left, ends = sorted(times, reverse=True), [0.0] * workers
    while left:
        worker = min(range(workers), key=ends.__getitem__)
        now = ends[worker]
        ends[worker] += left.pop(choose(left, [max(each - now, 0.0) for each in ends]))
    return max(ends)


def longest(times: Sequence[float], busy: Sequence[float]) -> int:
    return 0


@pytest.mark.parametrize(
    ("times", "workers", "longest_first", "soonest"),
    [
        ([3, 3, 2, 2, 2], 2, 7, 6),
        ([5, 5, 4, 4, 3, 3, 3], 3, 11, 9),
        ([8, 5, 5, 4, 4], 2, 14, 13),
        ([4, 4, 4, 4], 2, 8, 8),
    ],
)
def test_the_last_tasks_end_sooner_than_longest_first(
    times: list[float], workers: int, longest_first: float, soonest: float
) -> None:
    assert end(times, workers, longest) == longest_first
    assert end(times, workers, first_task) == soonest


def test_what_workers_still_have_to_do_counts() -> None:
    assert first_task([3, 2, 2, 2], [3, 0]) == 1  # the 3 is for the worker that has another 3 to do
    assert first_task([3, 2, 2, 2], [9, 0]) == 0


times = st.lists(st.floats(1, 100) | st.integers(1, 6), min_size=1, max_size=30)


@given(times, st.integers(1, 8))
def test_it_is_hardly_ever_later_than_longest_first(times: list[float], workers: int) -> None:
    assert end(times, workers, first_task) <= 1.05 * end(times, workers, longest)


class Nothing(hippo.Trainer):
    def setup(self, hp: object) -> None: ...

    def train(self) -> None: ...

    def evaluate(self) -> dict[str, float]:
        return {}


def test_a_study_ends_sooner() -> None:
    steps = {1: 30, 2: 30, 3: 20, 4: 20, 5: 20}
    executor = hippo.Simulated(2, metrics=lambda config, step: {"loss": 0.0})
    with hippo.Study("tail", Nothing, executor=executor) as study:
        report = study.tune(Lengths(steps), progress=False)
    assert report.work.wall_seconds == 60 + report.work.proof_steps


def test_while_there_is_much_to_do_tasks_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, ready = [], Frontier.ready

    def noted(self: Frontier, limit: int, only: str | None = None) -> tuple[list[Task], float]:
        compared.append(limit)
        return ready(self, limit, only)

    monkeypatch.setattr(Frontier, "ready", noted)
    executor = hippo.Simulated(2, metrics=lambda config, step: {"loss": 0.0})
    with hippo.Study("tail", Nothing, executor=executor) as study:
        study.tune(Lengths({lr: 20 + lr % 5 for lr in range(1, 201)}), progress=False)
    assert 0 < len(compared) < 20


class Lengths(hippo.tuners.Tuner):
    """Trials of given lengths, by learning rate, all asked for at once."""

    metric, mode = "loss", "min"

    def __init__(self, steps: dict[int, int]) -> None:
        self.steps = steps

    async def run(self, trials: hippo.tuners.Trials) -> None:
        asked = tuple((hippo.Config({"lr": lr}), steps) for lr, steps in self.steps.items())
        trials.submit(hippo.tuners.TrialGroup(asked))
        while trials.open:
            await trials.next()
