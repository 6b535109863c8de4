"""Which plan has which slot of a pool."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hippotune.scheduling.pool import Served, SlotPool

PLANS = st.integers(0, 3)


@given(
    st.integers(1, 6),
    st.lists(
        st.tuples(st.sampled_from(["demand", "serve", "let go", "freed", "close"]), PLANS, st.integers(0, 8))
    ),
    st.sampled_from([0.0, 30.0]),
)
def test_slots_are_with_one_plan_at_a_time_and_none_is_free_that_a_plan_has_work_for(
    slots: int, course: list[tuple[str, int, int]], turn: float
) -> None:
    pool = SlotPool(slots)
    served = dict.fromkeys(range(4), 0.0)
    for plan in range(4):
        pool.enter(plan)
    for what, plan, number in course:
        share = pool.plans[plan]
        match what:
            case "demand":
                pool.demand(plan, number)
            case "serve":
                served[plan] += number
                pool.serve(plan, [Served(f"study {plan}", f"user {plan % 2}", served[plan], number > 2)])
            case "let go" if share.slots:
                pool.release_slot(plan, min(share.slots))
            case "freed" if share.leaving:
                pool.freed(plan, min(share.leaving))
            case "close":
                pool.leave(plan)
                pool.enter(plan)
                served[plan] = 0.0
        _, limits, _ = pool.decide(turn)
        shares = pool.plans.values()
        taken = [slot for each in shares for slot in (*each.slots, *each.leaving)]
        assert len(set(taken)) == len(taken)
        assert set(taken) <= set(range(slots))
        if any(each.demand > len(each.slots) for each in shares):
            assert len(taken) == slots
        assert all(
            0 <= limit < len(pool.plans[each].slots) for each, limit in limits.items() if limit is not None
        )
        moving = sum(len(each.slots) - each.limit for each in shares if each.limit is not None)
        missing = sum(max(each.demand - len(each.slots), 0) for each in shares)
        assert moving <= missing, "no more is moved than somebody has work for"


def test_a_plan_keeps_its_slot_until_others_are_a_turn_behind() -> None:
    pool = SlotPool(1)
    for plan in range(2):
        pool.enter(plan)
        pool.serve(plan, [Served("study", "", 0.0, True)])
        pool.demand(plan, 1)
    assert pool.decide(turn=30.0).grants == [(0, 0)]
    pool.serve(0, [Served("study", "", 29.0, False)])
    assert pool.decide(turn=30.0) == ([], {}, {})
    pool.serve(0, [Served("study", "", 31.0, False)])
    assert pool.decide(turn=30.0) == ([], {0: 0}, {})
    pool.release_slot(0, 0)
    assert pool.decide(turn=30.0) == ([], {0: None}, {})
    pool.freed(0, 0)
    assert pool.decide(turn=30.0) == ([(1, 0)], {}, {})


def test_a_plan_hears_of_its_users_when_they_are_served_elsewhere() -> None:
    pool = SlotPool(2)
    for plan in range(2):
        pool.enter(plan)
    pool.serve(0, [Served("one", "a", 10.0, True), Served("two", "b", 3.0, True)])
    pool.serve(1, [Served("three", "b", 20.0, True)])
    assert pool.decide(turn=0.0).elsewhere == {0: {"a": 0.0, "b": 20.0}}
    pool.serve(1, [Served("three", "b", 22.0, True)])
    assert pool.decide(turn=0.0).elsewhere == {}
