"""What holds for studies in one process holds over a URL: the very same tests, on a server for each home."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hippotune.executors.base import Executor
from hippotune.study.study import Study
from served.serving import Running
from study import test_branching, test_deadlines, test_logged, test_promises, test_study

BY_CLIENT = [
    test_study.test_the_report_says_what_was_best_and_loads_it,
    test_study.test_one_trial_can_be_asked_for,
    test_study.test_a_group_can_be_awaited,
    test_study.test_several_tuners_one_after_the_other_share_everything,
    test_study.test_a_study_that_is_run_again_draws_what_was_recorded,
    test_study.test_a_trial_that_raises_fails_with_the_users_traceback_and_others_go_on,
    test_study.test_a_metric_that_recorded_results_lack_is_named,
    test_promises.test_all_asked_at_once_every_unique_step_is_trained_exactly_once,
    test_promises.test_trained_alone_and_shared_the_results_are_the_same,
    test_promises.test_run_again_everything_is_found_and_nothing_is_trained,
    test_deadlines.test_for_real_the_best_so_far_is_handed_over_and_loads,
    test_deadlines.test_for_real_a_deadline_before_the_first_result_is_a_clear_outcome,
    test_branching.test_a_trunk_keeps_checkpoints_where_branches_are_likely,
    test_branching.test_a_branch_without_a_checkpoint_says_what_is_trained_again,
    test_branching.test_branches_that_are_drawn_later_find_checkpoints_where_they_begin,
    test_branching.test_a_study_starts_from_weights_by_their_content,
    test_branching.test_substeps_are_values_within_a_step_and_part_of_the_plan,
    test_logged.test_a_study_that_goes_on_where_another_ended_has_all_numbers,
    test_logged.test_a_shared_step_is_stored_once,
    test_logged.test_a_trial_that_is_not_in_the_report_is_named,
]
ON_SERVER = [
    test_study.test_the_report_says_what_was_best_and_loads_it,
    test_study.test_a_trial_that_raises_fails_with_the_users_traceback_and_others_go_on,
]


class Homes:
    """A server for every home that a study names, with the workers that it brings."""

    def __init__(self) -> None:
        self._servers: dict[Path, Running] = {}

    def at(self, home: str | Path, executor: Executor | None) -> str:
        place = Path(home).resolve()
        if place not in self._servers:
            make = None if executor is None else lambda: type(executor)(executor.workers)  # type: ignore[call-arg]
            self._servers[place] = Running(place, make)
        return self._servers[place].url

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()


@pytest.fixture
def homes() -> Iterator[Homes]:
    made = Homes()
    yield made
    made.stop()


def served(monkeypatch: pytest.MonkeyPatch, homes: Homes, tuner: str) -> None:
    """Have studies with real workers be on a server."""
    make = Study.__init__

    def __init__(self: Study, *given: Any, home: Any = ".hippo", executor: Any = None, **more: Any) -> None:
        if executor is not None and executor.virtual:
            make(self, *given, home=home, executor=executor, **more)
        else:
            url = homes.at(home, executor)
            make(self, *given, home=home, url=url, tuner=tuner, code="value", **more)

    monkeypatch.setattr(Study, "__init__", __init__)


def run(case: Callable[..., None], request: pytest.FixtureRequest) -> None:
    case(**{name: request.getfixturevalue(name) for name in inspect.signature(case).parameters})


@pytest.mark.parametrize("case", BY_CLIENT, ids=lambda case: case.__name__)
def test_with_the_tuner_in_the_client(
    case: Any, homes: Homes, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    served(monkeypatch, homes, "client")
    run(case, request)


@pytest.mark.parametrize("case", ON_SERVER, ids=lambda case: case.__name__)
def test_with_the_tuner_on_the_server(
    case: Any, homes: Homes, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    served(monkeypatch, homes, "server")
    run(case, request)
