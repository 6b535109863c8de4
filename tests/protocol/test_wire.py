"""Facts as JSON."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.plan.facts import Checkpoint, Fact, FailureRecorded, MetricsRecorded, Position
from hippotune.protocol.wire import decode_fact, encode_fact
from sequences.strategies import configs

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
WHOLE = st.integers(0, 2**63 - 1)
plain = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats() | TEXT | st.just("NaN"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.just("float"), inner, max_size=2),
    max_leaves=4,
)
columns = st.dictionaries(TEXT, st.lists(st.none() | st.floats(), max_size=3).map(tuple), max_size=3)
BY_NAME: dict[str, st.SearchStrategy[object]] = {
    "metrics": st.dictionaries(TEXT, st.floats(), max_size=3),
    "numbers": columns,
    "definition": st.dictionaries(TEXT, plain, max_size=3),
    "steps": st.lists(WHOLE, max_size=3).map(tuple),
    "volatile": st.lists(TEXT, max_size=3).map(tuple),
    "fingerprint": st.binary(max_size=9),
}
BY_TYPE: dict[str, st.SearchStrategy[object]] = {
    "str": TEXT,
    "int": WHOLE,
    "float": st.floats(),
    "bool": st.booleans(),
    "Config": configs(("lr", "optimizer")),
    "Position": st.builds(Position, WHOLE, WHOLE),
    "Checkpoint": st.builds(Checkpoint, TEXT, WHOLE, TEXT, TEXT, st.booleans()),
}


def facts_of(kind: type) -> st.SearchStrategy[Fact]:
    """Draw facts of a kind, with every field that it has."""
    fields = {}
    for field in kind.__dataclass_fields__.values():  # type: ignore[attr-defined]
        name, _, optional = field.type.partition(" | ")
        drawn = BY_NAME[field.name] if field.name in BY_NAME else BY_TYPE[name]
        fields[field.name] = drawn | st.none() if optional else drawn
    return st.builds(kind, **fields)


@given(st.one_of([facts_of(kind) for kind in get_args(Fact)]))
def test_every_fact_comes_back_as_it_was(fact: Fact) -> None:
    text = encode_fact(fact)
    assert repr(decode_fact(text)) == repr(fact)  # which says of NaN that it is the same
    json.loads(text.decode(), parse_constant=pytest.fail)  # any program can read it


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"fact": "Nonsense"}', b'{"fact": "NodeAdded"}', b'{"fact": {"float": "NaN"}}']
)
def test_what_is_no_fact_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInput, match="fact"):
        decode_fact(text)


def test_what_a_later_version_added_is_passed_over() -> None:
    fact = MetricsRecorded(1, Position(0, 2), {"loss": 0.5}, 3.0)
    later = {**json.loads(encode_fact(fact)), "color": "blue"}
    del later["time"]
    found = decode_fact(json.dumps(later))
    assert found == fact
    assert found.time is None  # type: ignore[union-attr]


def test_text_that_utf_8_cannot_say_can_be_sent() -> None:
    found = decode_fact(encode_fact(FailureRecorded(1, Position(0, 1), "a \ud800 in ü")))
    assert found == FailureRecorded(1, Position(0, 1), "a ? in ü")
