"""Charges and levels: who was served how much, and who goes next."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hippotune.scheduling.fairness import Accounts

STUDIES = ["a", "b", "c", "d"]
SECONDS = st.fractions(0, 1000, max_denominator=64)
CHARGES = st.lists(st.tuples(st.sets(st.sampled_from(STUDIES), min_size=1), SECONDS))


def charged(charges: list[tuple[set[str], Fraction]]) -> dict[str, Fraction]:
    accounts: Accounts[str] = Accounts()
    for studies, seconds in charges:
        accounts.charge(studies, seconds)
    return {study: accounts.charged(study) for study in STUDIES}


@given(CHARGES, st.randoms())
def test_charges_add_up_in_any_order_and_those_who_wait_for_nothing_pay_nothing(charges, random) -> None:
    found = charged(charges)
    assert sum(found.values()) == sum(seconds for _, seconds in charges)
    for study in STUDIES:
        parts = [seconds / len(studies) for studies, seconds in charges if study in studies]
        assert found[study] == sum(parts)
    assert charged(random.sample(charges, len(charges))) == found


@given(st.lists(st.tuples(st.sampled_from(STUDIES), st.sets(st.sampled_from(STUDIES)), SECONDS)))
def test_levels_never_fall_and_one_that_begins_to_wait_is_not_behind_all_who_wait(course) -> None:
    accounts: Accounts[str] = Accounts()
    waiting: set[str] = set()
    for served, waits, seconds in course:
        level = accounts.ranks({})
        before = {study: level(study)[1] for study in STUDIES}
        accounts.wait(waits)
        for study in waits - waiting:
            assert level(study)[1] >= min((before[other] for other in waiting), default=before[study])
        accounts.charge([served], seconds)
        assert all(level(study)[1] >= before[study] for study in STUDIES)
        waiting = waits


@given(st.integers(1, 10), st.lists(st.fractions(1, 9, max_denominator=4), min_size=1))
def test_users_are_served_alike_however_many_studies_they_have(studies: int, lengths) -> None:
    accounts: Accounts[str] = Accounts()
    accounts.give("only", "one user")
    many = [f"of many {number}" for number in range(studies)]
    for study in many:
        accounts.give(study, "another")
    waiting = {"only", *many}
    accounts.wait(waiting)
    for turn in range(20 * studies):
        accounts.charge([min(sorted(waiting), key=accounts.ranks({}))], lengths[turn % len(lengths)])
    others = [accounts.charged(study) for study in many]
    assert abs(accounts.charged("only") - sum(others)) <= max(lengths)
    assert max(others) - min(others) <= max(lengths)


def test_a_slot_that_somebody_has_counts_for_what_it_will_bring() -> None:
    accounts: Accounts[str] = Accounts()
    accounts.charge(["a"], Fraction(59))
    assert min("ba", key=accounts.ranks({"b": Fraction(1)})) == "a"
    accounts.charge(["a"], Fraction(2))
    assert min("ba", key=accounts.ranks({"b": Fraction(1)})) == "b"
