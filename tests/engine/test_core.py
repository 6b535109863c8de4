"""The engine on workers without processes: every interleaving that hypothesis can think of."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.world import World, metrics_of, trained_alone
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import CheckpointPinned, MeasuredSteps, SpanRecorded
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.commands import RunLease, UpdateLease
from hippotune.protocol.events import (
    ActionTaken,
    BestChanged,
    BranchesForeseen,
    ConfigsForeseen,
    Halted,
    LeaseFailed,
    LeaseFinished,
    Progressed,
    RequestWithdrawn,
    StepsMissed,
    WorkerJoined,
)
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Constant, Cosine, Exponential, Linear, MultiStep, Piecewise, Warmup
from hippotune.sequences.config import Config
from hippotune.shell.pulse import take_pulse


def config(lr: object) -> Config:
    return Config({"lr": lr})


FLAT = config(Constant(0.1))
DROP_AT_4 = config(MultiStep(0.1, [4], 0.1))
DROP_AT_6 = config(Piecewise([0.1, 0.01], [6]))
DECAY = config(Exponential(0.1, 0.9))


def answered(world: World) -> dict[int, dict[str, float]]:
    return {
        answer.request: dict(answer.metrics) for answer in world.answers if answer.final and answer.metrics
    }


def leases(world: World) -> list[RunLease]:
    return [command for command in world.commands if isinstance(command, RunLease)]


def test_trials_that_begin_alike_are_trained_once_up_to_where_they_part() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10), (DROP_AT_4, 10), (DROP_AT_6, 10))
    world.run()
    assert world.steps_trained == 10 + 6 + 4
    assert len(answered(world)) == 3


def test_the_longest_path_goes_first_and_as_a_whole() -> None:
    world = World(slots=1)
    world.submit((DROP_AT_4, 8), (FLAT, 12))
    assert [lease.end for lease in leases(world)] == [12]
    world.run()
    assert [(lease.start, lease.end) for lease in leases(world)] == [(0, 12), (4, 8)]


def test_the_first_decision_follows_from_what_steps_took_before() -> None:
    plan = Plan()
    quick, slow = (plan.place(each, 100)[0] for each in (FLAT, DECAY))
    for measured, first in (
        ([], FLAT),
        ([MeasuredSteps(0, 1.0, 50, 50.0), MeasuredSteps(1, 1.0, 50, 250.0)], DECAY),
    ):
        world = World(slots=1, plan=plan, measured=measured)
        world.submit((FLAT, 12), (DECAY, 10))
        assert leases(world)[0].config == first
    assert slow.pace > quick.pace


def test_the_time_that_is_left_goes_by_how_long_the_steps_of_each_lease_take() -> None:
    plan = Plan()
    for each in (FLAT, DECAY):
        plan.place(each, 100)
    measured = [MeasuredSteps(0, 1.0, 50, 50.0), MeasuredSteps(1, 1.0, 50, 250.0)]
    world = World(slots=2, plan=plan, measured=measured)
    world.tick = 0.0
    world.submit((FLAT, 12), (DECAY, 10))
    usual = world.engine.profile.usual or 0.0
    pulse = take_pulse(world.engine, world.now, 2, 0.0, None)
    assert pulse.chain == pytest.approx(1 + 9 * 5)
    assert usual * world.engine.plan[1].pace == pytest.approx(5)
    pulse = take_pulse(world.engine, world.now + 20, 2, 0.0, None)
    assert pulse.chain == pytest.approx(1 + 9 * 5 - 20)


def test_a_span_says_what_its_steps_took() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10), (DROP_AT_4, 10))
    world.run()
    spans = [fact for fact in world.facts if isinstance(fact, SpanRecorded)]
    assert [(span.node, span.first, span.last) for span in spans] == [(0, 0, 10), (1, 4, 10)]
    for span in spans:
        assert span.seconds == pytest.approx(span.last - span.first)  # a second each, of the World's workers


def test_a_branch_ahead_of_a_running_worker_is_saved_without_training_twice() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10))
    for _ in range(4):
        world.move(0)  # start, then three steps
    world.submit((DROP_AT_4, 10))
    assert isinstance(world.commands[-1], UpdateLease) or any(
        isinstance(command, UpdateLease) and 4 in command.saves for command in world.commands
    )
    world.run()
    assert world.steps_trained == 10 + 6


def test_a_late_branch_retrains_only_from_the_nearest_checkpoint() -> None:
    world = World(slots=1)
    world.submit((FLAT, 3))
    world.run()
    world.submit((FLAT, 10))
    world.run()
    assert world.steps_trained == 10
    world.submit((DROP_AT_6, 10))
    world.run()
    assert world.steps_trained == 10 + 3 + 4  # from the checkpoint at 3 to the branch at 6, then the new part


def test_a_foreseen_branch_costs_nothing_when_it_is_asked_for_late() -> None:
    world = World(slots=1)
    world.feed(ConfigsForeseen((FLAT, DROP_AT_6), 10))
    world.submit((FLAT, 10))
    world.run()
    world.submit((DROP_AT_6, 10))
    world.run()
    assert world.steps_trained == 10 + 4


def test_an_update_that_comes_too_late_is_answered_and_made_good_from_a_checkpoint() -> None:
    world = World(slots=2, delayed=True)
    world.submit((FLAT, 10))
    for _ in range(9):
        world.move(0)
    while world.engine.leases[0].at < 3:  # what the engine has heard is old
        world.deliver(0)
    world.submit((DROP_AT_4, 10))
    assert isinstance(world.commands[-1], UpdateLease)
    assert 4 in world.commands[-1].saves
    world.run()
    assert any(isinstance(event, StepsMissed) for event in world.heard)
    assert len(answered(world)) == 2
    for answer in world.answers:
        assert answer.metrics is not None


def test_further_asks_of_a_running_trial_wait_for_it_instead_of_training_beside_it() -> None:
    world = World(slots=2)
    world.submit((FLAT, 5))
    world.submit((FLAT, 9))
    assert len(leases(world)) == 1
    world.run()
    assert world.steps_trained == 9


def test_a_worker_goes_on_from_the_state_that_it_holds() -> None:
    world = World(slots=1)
    world.submit((FLAT, 5))
    world.run()
    world.submit((FLAT, 9))
    world.run()
    assert [lease.warm for lease in leases(world)] == [False, True]


def test_metrics_at_a_kept_state_are_measured_without_training() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10), (DROP_AT_4, 8))
    world.run()
    trained = world.steps_trained
    (request,) = world.submit((FLAT, 4))
    world.run()
    assert world.steps_trained == trained
    assert answered(world)[request.id] == metrics_of(trained_alone(FLAT, 4))


def test_a_withdrawn_trial_stops_at_its_next_step_and_keeps_where_it_got_to() -> None:
    world = World(slots=1)
    (request,) = world.submit((FLAT, 10))
    for _ in range(4):
        world.move(0)
    world.feed(RequestWithdrawn(request.id))
    world.run()
    assert world.steps_trained == 3
    assert 3 in world.engine.plan.nodes[0].checkpoints
    assert not world.answers


def test_a_request_that_waits_for_its_checkpoint_alone_can_be_withdrawn() -> None:
    world = World(slots=1)
    (request,) = world.submit((FLAT, 2), keep=True)
    while world.move(0):
        pass
    waiting = world.engine.state.promises.waiting_for_save
    assert waiting
    world.feed(RequestWithdrawn(request.id))
    assert not waiting
    world.run()
    assert 2 in world.engine.plan.nodes[0].checkpoints
    assert not world.answers


def test_a_withdrawn_trial_goes_on_as_far_as_another_one_needs_it() -> None:
    world = World(slots=1)
    first, second = world.submit((FLAT, 10), (DROP_AT_6, 8))
    world.move(0)
    world.feed(RequestWithdrawn(first.id))
    world.run()
    assert world.steps_trained == 8
    assert list(answered(world)) == [second.id]


def test_a_failure_fails_the_trials_that_pass_there_and_no_others() -> None:
    world = World(slots=1)
    world.fails_at = lambda config, step: config.values(step)["lr"] == 0.1 and step == 5
    early, through, below = world.submit((DROP_AT_4, 8), (FLAT, 10), (DROP_AT_6, 8))
    world.run()
    failed = {answer.request for answer in world.answers if answer.error == "Boom"}
    assert failed == {through.id, below.id}
    assert list(answered(world)) == [early.id]
    (again,) = world.submit((FLAT, 12))
    assert world.answers[-1].request == again.id
    assert world.answers[-1].error == "Boom"


def test_reports_come_before_the_final_answer() -> None:
    world = World(slots=1)
    (request,) = world.submit((FLAT, 6), reports=(2, 4))
    world.run()
    assert [(answer.step, answer.final) for answer in world.answers] == [(2, False), (4, False), (6, True)]
    assert {answer.request for answer in world.answers} == {request.id}


def test_halting_stops_leases_and_starts_nothing() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10))
    world.move(0)
    world.move(0)
    world.feed(Halted())
    world.run()
    assert world.steps_trained == 1
    assert 1 in world.engine.plan.nodes[0].checkpoints


def test_an_illegal_transition_tells_the_history_of_the_lease() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10), reports=(1,))
    for _ in range(4):
        world.move(0)
    with pytest.raises(IllegalTransition) as backwards:
        world.engine.handle(Progressed(0, 0, 1, 0.1), 8.0)
    assert str(backwards.value).splitlines() == [
        "Progressed(lease=0, step=0, steps=1, seconds=0.1) goes back: "
        "lease 0 on worker 0 is running, at step 2: node 0 [0, 10)",
        "  owes metrics at [10], saves at [10]",
        "  2.000 given to worker 0",
        "  3.000 started, loaded in 0.000 s",
        "  6.000 metrics at 1",
    ]


def test_what_is_said_of_a_lease_that_is_over_tells_its_history() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10))
    world.move(0)
    world.feed(LeaseFailed(0, 1, "Boom", "train"))
    with pytest.raises(
        IllegalTransition, match=r"(?s)lease 0 on worker 0 is over.*4\.000 failed in train at 1"
    ):
        world.engine.handle(LeaseFinished(0, 10), 5.0)
    with pytest.raises(IllegalTransition, match="names lease 7, which does not exist"):
        world.engine.handle(LeaseFinished(7, 10), 5.0)
    with pytest.raises(IllegalTransition, match="joined twice"):
        world.engine.handle(WorkerJoined(0), 5.0)


def test_unshared_trials_are_trained_alone_and_go_on_from_their_own_checkpoints() -> None:
    world = World(slots=2)
    for isolation_key in ("0", "1"):
        world.submit((FLAT, 5), isolation_key=isolation_key)
    world.run()
    world.submit((FLAT, 8), isolation_key="1")
    world.run()
    assert world.steps_trained == 5 + 5 + 3


LEARNING_RATES = [
    0.1,
    Exponential(0.1, 0.9),
    Exponential(0.1, 0.8),
    MultiStep(0.1, [4], 0.1),
    MultiStep(0.1, [4, 9], 0.1),
    Piecewise([0.1, 0.01], [6]),
    Piecewise([0.1, 0.01, 0.1], [4, 5]),
    Cosine(0.1, 10),
    Warmup(3, Cosine(0.1, 10)),
    Warmup(3, Constant(0.1)),
    Linear(0.1, 0.01, 8),
]
BATCH_SIZES = [16, MultiStep(16, [7], 2), MultiStep(16, [2], 2)]
POOL = [Config({"lr": lr, "bs": bs}) for lr in LEARNING_RATES for bs in BATCH_SIZES]
seeds = st.integers(0, 2**32)
proofs = st.sampled_from([None, ProofPolicy("Trainer")])
intervals = st.sampled_from([None, 3.0, 12.0])  # of interim saves, in ticks of the World's clock
studies = st.lists(st.tuples(st.sampled_from(POOL), st.integers(1, 14)), min_size=1, max_size=8)


@given(studies, st.integers(1, 3), seeds, proofs, intervals)
def test_every_interleaving_trains_each_unique_step_once(
    asks: list[tuple[Config, int]],
    workers: int,
    seed: int,
    proved: ProofPolicy | None,
    every: float | None,
) -> None:
    chance = random.Random(seed)
    world = World(workers, delayed=True, proofs=proved, checkpoint_every=every)
    requests = world.submit(*asks, reports=(3, 7))
    world.run(chance.randrange)
    for request in requests:
        expected = metrics_of(trained_alone(request.config, request.step))
        assert answered(world)[request.id] == expected
    plan = Plan()
    assert world.steps_trained == unique_steps([(plan.place(c, s)[0], s) for c, s in asks])
    assert not world.engine.plan.interim


@given(st.lists(studies, min_size=1, max_size=4), st.integers(1, 3), seeds, proofs, intervals)
def test_deaths_withdrawals_and_late_groups_change_no_result(
    groups: list[list[tuple[Config, int]]],
    workers: int,
    seed: int,
    proved: ProofPolicy | None,
    every: float | None,
) -> None:
    chance = random.Random(seed)
    world = World(workers, delayed=True, proofs=proved, checkpoint_every=every)
    open_groups = list(groups)
    requests: list = []
    kept: list = []
    withdrawn: set[int] = set()

    def disturb() -> None:
        if open_groups and chance.random() < 0.1:
            requests.extend(world.submit(*open_groups.pop(), reports=(2, 5)))
        if requests and chance.random() < 0.03:
            again = chance.choice(requests)
            kept.extend(world.submit((again.config, chance.randint(1, again.step)), keep=True))
        if chance.random() < 0.03:
            world.kill(chance.randrange(workers))
        if requests and chance.random() < 0.03:
            request = chance.choice(requests)
            if request.id not in answered(world):
                withdrawn.add(request.id)
            world.feed(RequestWithdrawn(request.id))

    for _ in range(400):
        disturb()
        if moves := world.moves():
            chance.choice(moves)()
    while open_groups:
        requests.extend(world.submit(*open_groups.pop()))
    world.run(chance.randrange)
    answers = answered(world)
    failed = {answer.request for answer in world.answers if answer.suspended}
    assert failed == {answer.request for answer in world.answers if answer.error}
    for request in requests + kept:
        if request.id in withdrawn or request.id in failed:
            continue  # a stage may have lost its worker four times in a row
        assert answers[request.id] == metrics_of(trained_alone(request.config, request.step))
    on_disk = set(world.disk)
    assert failed or not world.engine.plan.interim
    for request in kept:
        if request.id not in failed:
            place = world.engine.plan.find(request.config, request.step).position(request.step)
            assert world.engine.plan[place.node].checkpoints[place.step].name in on_disk


@given(studies, studies, seeds, st.integers(0, 60), proofs, intervals)
def test_a_plan_replayed_from_its_facts_goes_on_where_it_was(
    first: list[tuple[Config, int]],
    second: list[tuple[Config, int]],
    seed: int,
    moves: int,
    proved: ProofPolicy | None,
    every: float | None,
) -> None:
    chance = random.Random(seed)
    world = World(2, delayed=True, proofs=proved, checkpoint_every=every)
    world.submit(*first)
    for _ in range(moves):
        if possible := world.moves():
            chance.choice(possible)()
    resumed = World(2, Plan.replay(world.facts), proofs=proved, checkpoint_every=every)
    resumed.disk = world.disk
    requests = resumed.submit(*first, *second)
    resumed.run(chance.randrange)
    for request in requests:
        assert answered(resumed)[request.id] == metrics_of(trained_alone(request.config, request.step))
    for node, step in resumed.engine.plan.interim:  # its end was measured, and not saved: more may be asked
        assert step == max(resumed.engine.plan[node].checkpoints) < max(resumed.engine.plan[node].metrics)
    assert not resumed.engine.proofs.is_open
    assert bool(resumed.engine.plan.rehearsed) == (proved is not None)


@given(
    st.lists(studies, min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(2, 6),
    seeds,
    proofs,
    intervals,
)
def test_a_budget_for_checkpoints_costs_steps_and_no_result(
    groups: list[list[tuple[Config, int]]],
    workers: int,
    budget: int,
    seed: int,
    proved: ProofPolicy | None,
    every: float | None,
) -> None:
    chance = random.Random(seed)
    world = World(workers, budget=budget, delayed=True, proofs=proved, checkpoint_every=every)
    requests = []
    for group in groups:
        requests += world.submit(*group, reports=(4,))
        world.run(chance.randrange)
    for request in requests:
        assert answered(world)[request.id] == metrics_of(trained_alone(request.config, request.step))
    assert world.most_on_disk <= budget + 1
    assert len(world.disk) == world.engine.plan.bytes


def test_no_lease_starts_without_room_for_the_checkpoint_at_its_end() -> None:
    world = World(slots=3, budget=2)
    world.submit((FLAT, 1), keep=True)
    world.run()
    world.submit(*((Config({"lr": rate}), 3) for rate in (1.0, 2.0, 3.0)))
    assert [lease.state for lease in world.engine.leases.values()] == ["running"]
    world.run()
    assert len(answered(world)) == 4
    assert world.most_on_disk <= 2


def test_the_best_and_what_is_needed_next_outlive_the_rest() -> None:
    world = World(slots=1, budget=2)
    world.submit((FLAT, 10))
    world.run()
    world.feed(BestChanged("study", ((FLAT, 10, ""),)))
    world.submit((DECAY, 10), (DROP_AT_4, 10), (DROP_AT_6, 10))
    world.run()
    assert 10 in world.engine.plan.nodes[0].checkpoints
    assert world.most_on_disk <= 3


def test_what_a_person_pins_outlives_the_rest_until_it_is_unpinned() -> None:
    world = World(slots=1, budget=2)
    world.submit((FLAT, 10))
    world.run()
    at = world.engine.plan.nodes[0].position(10)
    world.feed(ActionTaken(CheckpointPinned(at, 0.0)))
    world.submit((DECAY, 10), (DROP_AT_4, 10), (DROP_AT_6, 10))
    world.run()
    assert 10 in world.engine.plan.nodes[0].checkpoints
    world.feed(ActionTaken(CheckpointPinned(at, 1.0, pinned=False)))
    world.submit((config(0.5), 10), (config(0.6), 10))
    world.run()
    assert 10 not in world.engine.plan.nodes[0].checkpoints
    assert Plan.replay(world.facts).pinned == set()


def test_a_trunk_keeps_its_newest_checkpoint_whatever_it_costs_to_train_again() -> None:
    world = World(slots=1, budget=5)
    for last in (16, 24, 32, 40, 41):
        world.feed(BranchesForeseen(FLAT, (last,)))
        world.submit((FLAT, last))
        world.run()
        assert last in world.engine.plan.nodes[0].checkpoints
    assert world.steps_trained == 41
    assert world.most_on_disk <= 6


def test_a_running_lease_saves_more_when_it_is_known_what_the_budget_has_room_for() -> None:
    world = World(slots=2, budget=8)
    world.feed(BranchesForeseen(FLAT, (2, 4, 8, 12)))
    world.submit((FLAT, 16), (config(0.5), 1))
    short = next(number for number, worker in world.workers.items() if worker.lease and worker.lease.end == 1)
    while world.move(short) or world.write(short):  # the first checkpoint of all is a small trial's
        pass
    world.run()
    assert sorted(world.engine.plan.nodes[0].checkpoints) == [2, 4, 8, 12, 16]


def test_slots_are_shared_evenly_between_studies() -> None:
    world = World(slots=4)
    world.submit(*[(config(0.1 + at), 20) for at in range(20)], study="long")
    assert [lease.study for lease in world.engine.leases.values()] == ["long"] * 4
    began, before = world.now, world.engine.spent("long", world.now)
    world.submit(*[(config(-1.0 - at), 5) for at in range(40)], study="short")
    while world.now < began + 800:
        for move in world.moves():
            move()
    long, short = (world.engine.spent(study, world.now) for study in ("long", "short"))
    assert short == pytest.approx(long - before, rel=0.2)
