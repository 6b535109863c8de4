"""The rehearsal of a plan: what is repeated where, what is decided, and that it is decided once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.world import State, Worker, World
from hippotune.plan.facts import Position, ProofRecorded, SpanRecorded, refutation
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Abort, Note, RunLease
from hippotune.protocol.events import Halted, LeaseFailed, MetricsRequired, WorkerLost
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Config, MultiStep

FLAT = Config({"lr": 0.1})
DROP = Config({"lr": MultiStep(0.1, [4], 0.1)})
LATER = Config({"lr": MultiStep(0.1, [6], 0.1)})
EXACT = ProofPolicy("Trainer", audit=0)
AUDITED = ProofPolicy("Trainer")


def proofs(world: World) -> list[RunLease]:
    return [command for command in world.commands if isinstance(command, RunLease) and command.proof]


def verdicts(world: World) -> list[ProofRecorded]:
    return [fact for fact in world.facts if isinstance(fact, ProofRecorded)]


def loses_something(lease: RunLease, state: State) -> State:
    """A state that is not all there after a load."""
    return (*state[:-1], "forgotten") if lease.start else state


@pytest.mark.parametrize("slots", [1, 2])
def test_one_step_is_repeated_fresh_in_its_own_process_and_from_scratch(slots: int) -> None:
    world = World(slots, proofs=EXACT)
    world.submit((FLAT, 10))
    world.run()
    assert sorted((lease.start, lease.end, lease.fresh) for lease in proofs(world)) == [
        (0, 1, False),
        (1, 2, False),
        (1, 2, True),
    ]
    (warm,) = [lease for lease in proofs(world) if lease.start and not lease.fresh]
    assert warm.worker == 0, "the worker that trained the first trial"
    assert [(fact.kind, fact.outcome) for fact in verdicts(world)] == [("rehearsal", "exact")]
    assert (world.steps_trained, world.steps_proved) == (10, 3)


def test_a_worker_that_has_trained_nothing_is_the_fresh_interpreter() -> None:
    world = World(2, proofs=EXACT)
    world.submit((FLAT, 10))
    world.run()
    assert [lease.worker for lease in proofs(world) if lease.fresh] == [1]


def test_the_first_trial_stops_for_the_proofs_only_where_its_path_is_long() -> None:
    for steps, stops in ((5, False), (30, True)):
        world = World(1, proofs=EXACT)
        world.submit((FLAT, steps))
        world.run()
        training = [each for each in world.commands if isinstance(each, RunLease) and not each.proof]
        assert (len(training) > 1) == stops
        assert world.steps_trained == steps


def test_what_proofs_take_is_counted_apart() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 10))
    world.run()
    spans = [fact for fact in world.facts if isinstance(fact, SpanRecorded)]
    assert sum(span.last - span.first for span in spans if span.kind == "train") == 10
    assert sum(span.last - span.first for span in spans if span.kind == "proof") == 3
    assert world.engine.trained == 10
    assert world.engine.proof_work.steps == 3
    assert world.engine.proof_work.seconds == sum(
        span.ended - span.began for span in spans if span.kind == "proof"
    )


def test_the_checkpoint_that_was_for_the_proofs_alone_goes_with_them() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 5))
    world.run()
    assert sorted(world.disk) == ["0-5"]


def test_a_state_that_is_not_all_there_after_a_load_ends_the_study() -> None:
    world = World(1, proofs=EXACT)
    world.remembers = loses_something
    world.submit((FLAT, 5))
    world.run()
    (verdict,) = verdicts(world)
    assert verdict.outcome == "differs"
    assert verdict.path == "self.values"
    (abort,) = [command for command in world.commands if isinstance(command, Abort)]
    assert abort.refutation is not None
    assert abort.error == verdict.text


def test_a_number_that_no_tuner_needs_may_be_a_clock_and_is_repeated_twice() -> None:
    world = World(1, proofs=EXACT)
    world.constants = {"another": 0.0}
    world.feed(MetricsRequired(frozenset({"another"})))
    world.remembers = loses_something
    world.submit((FLAT, 5))
    world.run()
    assert [(fact.outcome, fact.path) for fact in verdicts(world)] == [("differs", "self.values")]
    assert sorted((lease.start, lease.end) for lease in proofs(world)) == [(0, 1), (0, 2), *[(1, 2)] * 4]


def test_a_study_that_need_not_be_exact_goes_on_with_a_note() -> None:
    world = World(1, proofs=ProofPolicy("Trainer", exact=False, audit=0))
    world.remembers = lambda lease, state: loses_something(lease, state) if lease.proof else state
    world.submit((FLAT, 5))
    world.run()
    (verdict,) = verdicts(world)
    assert not world.aborts
    assert verdict.text in [command.text for command in world.commands if isinstance(command, Note)]
    assert [answer.error for answer in world.answers] == [None]
    assert refutation(world.engine.plan.proofs) == verdict


def test_a_repetition_that_raises_where_the_trial_did_not_is_a_difference() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 5))
    while not proofs(world):
        world.moves()[0]()
    world.fails_at = lambda config, step: True
    world.run()
    assert [(fact.outcome, "Boom" in fact.text) for fact in verdicts(world)] == [("differs", True)]


def test_one_step_is_all_there_is_to_rehearse_until_something_goes_further() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 1))
    world.run()
    assert [(lease.start, lease.end) for lease in proofs(world)] == [(0, 1)]
    world.submit((FLAT, 5))
    world.run()
    assert [fact.position.step for fact in verdicts(world)] == [1, 2]
    assert world.steps_trained == 5


def test_a_proved_plan_is_not_proved_again() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 5))
    world.run()
    again = World(1, Plan.replay(world.facts), proofs=EXACT)
    again.disk = world.disk
    again.submit((FLAT, 9), (DROP, 9))
    again.run()
    assert not proofs(again)


@given(st.integers(1, 3), st.integers(0, 2**32), st.integers(0, 60), st.booleans(), st.booleans())
def test_kills_and_losses_at_any_moment_leave_it_to_be_decided_once(
    slots: int, seed: int, moves: int, halts: bool, is_exact: bool
) -> None:
    chance = random.Random(seed)
    policy = ProofPolicy("Trainer", is_exact)

    def remembers(lease: RunLease, state: State) -> State:
        return loses_something(lease, state) if lease.proof and not is_exact else state

    world = World(slots, delayed=True, proofs=policy)
    world.remembers = remembers
    world.constants = {"another": 0.0}
    world.feed(MetricsRequired(frozenset({"another"})))
    world.submit((FLAT, 8), (DROP, 8), (LATER, 9))
    for _ in range(moves):
        if chance.random() < 0.05:
            world.kill(chance.randrange(slots))
        if possible := world.moves():
            chance.choice(possible)()
    if halts:
        world.feed(Halted())
        world.run(chance.randrange)
    resumed = World(slots, Plan.replay(world.facts), delayed=True, proofs=policy)
    resumed.disk, resumed.remembers = world.disk, remembers
    resumed.constants = {"another": 0.0}
    resumed.feed(MetricsRequired(frozenset({"another"})))
    resumed.submit((FLAT, 8), (DROP, 8), (LATER, 9))
    resumed.run(chance.randrange)
    assert not resumed.engine.proofs.is_open
    decided = verdicts(world) + verdicts(resumed)
    is_anything_trained = any(answer.metrics for answer in resumed.answers)  # workers may have died too often
    assert [fact.kind for fact in decided].count("rehearsal") == is_anything_trained
    places = [(fact.kind, fact.position) for fact in decided]
    assert len(set(places)) == len(places)
    assert {fact.outcome for fact in decided} <= {"exact" if is_exact else "differs"}


# Audits.


@pytest.mark.parametrize("slots", [1, 2])
def test_the_step_after_a_branch_is_repeated_from_its_checkpoint(slots: int) -> None:
    world = World(slots, proofs=AUDITED)
    world.submit((FLAT, 8), (DROP, 8))
    world.run()
    (audit,) = [lease for lease in proofs(world) if lease.start > 1]
    assert (audit.start, audit.end, audit.evaluations) == (4, 5, {5})
    assert [fact.kind for fact in verdicts(world)] == ["rehearsal", "audit"]
    assert not world.engine.plan.fingerprints


def test_what_begins_to_matter_late_is_caught_at_a_branch() -> None:
    world = World(2, proofs=AUDITED)
    world.remembers = lambda lease, state: loses_something(lease, state) if lease.start > 3 else state
    world.submit((FLAT, 8), (DROP, 8))
    while not world.aborts and world.moves():
        world.moves()[0]()
    assert [(fact.kind, fact.outcome) for fact in verdicts(world)] == [
        ("rehearsal", "exact"),
        ("audit", "differs"),
    ]


def test_without_audits_nothing_is_repeated_at_branches() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 8), (DROP, 8))
    world.run()
    assert all(lease.start < 2 for lease in proofs(world))


def test_after_the_first_branches_audits_stay_within_their_share() -> None:
    steps = 200
    configs = [Config({"lr": MultiStep(0.1, [at], 0.1)}) for at in range(10, 190, 10)]
    repeated = {}
    for audit in (0.001, 0.5):
        world = World(1, proofs=ProofPolicy("Trainer", audit=audit))
        world.submit((FLAT, steps), *((config, steps) for config in configs))
        world.run()
        world.submit((Config({"lr": 0.2}), steps), (Config({"lr": MultiStep(0.2, [50], 0.1)}), steps))
        world.run()
        repeated[audit] = sum(fact.kind == "audit" for fact in verdicts(world))
    assert repeated[0.001] == 2
    assert repeated[0.5] > 2


@pytest.mark.parametrize("exact", [True, False])
def test_workers_that_are_lost_all_the_time_say_nothing_about_the_trainer(exact: bool) -> None:
    world = World(1, proofs=ProofPolicy("Trainer", exact=exact, audit=0))
    world.submit((FLAT, 5))
    for losses in range(4):
        assert not world.aborts
        while world.workers[0].lease is None or not world.workers[0].lease.fresh:
            world.moves()[0]()
        assert sum(lease.fresh for lease in proofs(world)) == losses + 1
        world.kill(0)
    world.run()
    assert verdicts(world) == []
    assert not world.engine.proofs.is_open
    notes = [command.text for command in world.commands if isinstance(command, Note)]
    assert "could not be rehearsed" in "".join(world.aborts if exact else notes)
    again = World(1, Plan.replay(world.facts), proofs=EXACT)
    again.disk = world.disk
    again.submit((FLAT, 5))
    again.run()
    assert [fact.outcome for fact in verdicts(again)] == ["exact"]


@given(st.integers(1, 3), st.integers(0, 2**32), st.floats(0.02, 0.2))
def test_workers_that_die_all_the_time_keep_nothing_open_for_ever(
    slots: int, seed: int, share: float
) -> None:
    chance = random.Random(seed)
    world = World(slots, delayed=True, proofs=AUDITED)
    world.submit((FLAT, 8), (DROP, 8), (LATER, 9))
    for _ in range(150):
        if chance.random() < share:
            world.kill(chance.randrange(slots))
        if possible := world.moves():
            chance.choice(possible)()
    world.run(chance.randrange)
    assert not world.engine.proofs.is_open
    assert len(world.answers) == 3


# Like with like.


@pytest.mark.parametrize("platforms", [["a", "b"], ["a", "b", "a"]])
def test_steps_are_repeated_on_the_platform_that_they_were_trained_on(platforms: list[str]) -> None:
    for seed in range(5):
        chance = random.Random(seed)
        world = World(len(platforms), proofs=AUDITED, platforms=platforms)
        world.submit((FLAT, 30), (DROP, 20), (LATER, 9))
        world.run(chance.randrange)
        starts = {lease.lease: lease for lease in proofs(world)}
        assert [fact.kind for fact in verdicts(world)] == ["rehearsal", "audit", "audit"]
        rehearsed = {platforms[lease.worker] for lease in starts.values() if lease.start < 2}
        assert len(rehearsed) == 1
        for lease in starts.values():
            if lease.start > 1:
                assert lease.source is not None
                assert lease.source.platform == platforms[lease.worker]


def test_a_plan_that_goes_on_on_another_platform_alone_is_rehearsed_there() -> None:
    facts, disk, rehearsed = [], {}, []
    for steps, platforms in enumerate((["a"], ["b"], ["b"], ["c", "a"]), start=5):
        world = World(len(platforms), Plan.replay(facts), proofs=EXACT, platforms=platforms)
        world.disk = disk
        world.submit((FLAT, steps))
        world.run()
        assert len(world.answers) == 1
        rehearsed.append([fact.platform for fact in verdicts(world)])
        facts += world.facts
    assert rehearsed == [["a"], ["b"], [], []]


def test_where_no_worker_of_a_platform_is_left_the_rehearsal_begins_anew() -> None:
    world = World(2, proofs=EXACT, platforms=["a", "b"])
    world.submit((FLAT, 30))
    while not proofs(world):
        world.move(0)
        world.write(0)
    world.workers[0] = Worker(0)
    world.feed(WorkerLost(0, "gone for good"))
    world.run()
    assert [fact.outcome for fact in verdicts(world)] == ["exact"]
    assert {lease.worker for lease in proofs(world) if lease.worker} == {1}
    assert len(world.answers) == 1


def test_after_a_move_to_another_platform_an_audit_waits_and_nobody_for_it() -> None:
    world = World(1, proofs=AUDITED, platforms=["a"])
    world.submit((FLAT, 8), (DROP, 8))
    while not world.engine.plan.fingerprints:
        world.moves()[0]()
    world.feed(Halted())
    world.run()
    asks = ((FLAT, 8), (DROP, 8))
    moved = World(1, Plan.replay(world.facts), proofs=AUDITED, platforms=["b"])
    moved.disk = world.disk
    moved.submit(*asks)
    moved.run()
    assert not moved.engine.proofs.is_open
    assert len(moved.answers) == 2
    assert moved.engine.plan.fingerprints
    back = World(1, Plan.replay([*world.facts, *moved.facts]), proofs=AUDITED, platforms=["a"])
    back.disk = moved.disk
    back.submit(*asks)
    back.run()
    assert not back.engine.plan.fingerprints


def test_the_checkpoint_that_proofs_start_from_stays_until_they_are_over() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 10))
    while world.steps_trained < 3:
        world.move(0)
        world.write(0)
    need = world.engine.checkpoints.need_beside_leases
    assert need(Position(0, 1)) == 2
    world.run()
    assert 1 not in world.engine.plan.nodes[0].checkpoints


def test_a_proof_that_fails_while_it_loads_has_a_span() -> None:
    world = World(1, proofs=EXACT)
    world.submit((FLAT, 10))
    while not (found := [lease for lease in proofs(world) if lease.start]):
        world.moves()[0]()
    (lease,), worker = found, world.workers[found[0].worker]
    assert worker.run is not None
    worker.run.next()
    seconds = world.engine.proof_work.seconds
    world.feed(LeaseFailed(lease.lease, worker.run.fail(), "Boom", "load"))
    (span,) = [span for span in world.spans() if span.lease == lease.lease]
    assert (span.kind, span.first, span.last) == ("proof", lease.start, lease.start)
    assert span.ended - span.began == world.engine.proof_work.seconds - seconds > 0
