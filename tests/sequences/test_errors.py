"""Arguments that cannot be meant are refused at once: the message names them, shows them, says what fits."""

# mypy: disable-error-code="arg-type,list-item,dict-item"

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from hippotune.errors import InvalidInput
from hippotune.sequences import (
    Config,
    Constant,
    Cosine,
    CosineRestarts,
    Cyclic,
    Exponential,
    Function,
    InverseSqrt,
    Linear,
    MultiStep,
    OneCycle,
    Piecewise,
    Polynomial,
    Step,
    Table,
    Then,
    Warmup,
    as_sequence,
)

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Constant(math.nan), "Constant: value is nan; expected a finite number"),
    (lambda: Constant(math.inf), "value is inf"),
    (lambda: Constant([0.1]), "value is [0.1] of type list; expected a number, a string or a boolean"),
    (lambda: Constant(None), "value is None"),
    (lambda: Linear(0, math.nan, 5), "Linear: end is nan; expected a finite number"),
    (lambda: Linear(0, 1, 0), "steps is 0; expected a whole number of at least 1"),
    (lambda: Linear(0, 1, 2.5), "steps is 2.5; expected a whole number"),
    (lambda: Linear(0, 1, True), "steps is True; expected a whole number"),
    (lambda: Linear("0", 1, 5), "start is '0'; expected a finite number"),
    (lambda: Linear(True, 1, 5), "start is True; expected a finite number"),
    (lambda: Exponential(0.1, -0.5), "gamma is -0.5; expected a finite number at least 0"),
    (lambda: Exponential(0.1, math.inf), "gamma is inf"),
    (lambda: Polynomial(0.1, 10, power=0), "power is 0; expected a finite number above 0"),
    (lambda: Polynomial(0.1, -1), "steps is -1"),
    (lambda: InverseSqrt(0.1, 0), "scale is 0; expected a finite number above 0"),
    (lambda: Step(0.1, 0), "size is 0; expected a whole number of at least 1"),
    (lambda: Step(0.1, 10, -1), "gamma is -1"),
    (lambda: MultiStep(0.1, [60, 30]), "milestones is [60, 30]; expected steps in increasing order"),
    (lambda: MultiStep(0.1, [-3]), "milestones[0] is -3; expected a whole number of at least 0"),
    (lambda: MultiStep(0.1, [30.0]), "milestones[0] is 30.0; expected a whole number"),
    (lambda: MultiStep(0.1, 30), "milestones is 30; expected a list"),
    (lambda: MultiStep(0.1, "30"), "milestones is '30'; expected a list"),
    (lambda: Piecewise([1, 2], [5, 9]), "values has 2 items and milestones 2; expected one value more"),
    (lambda: Piecewise([1, 2, 3], [5, 5]), "milestones is [5, 5]; expected steps in increasing order"),
    (lambda: Piecewise([1, {}], [5]), "values[1] is {}; expected at least one weight above 0"),
    (lambda: Cosine(0.1, 0), "steps is 0"),
    (lambda: CosineRestarts(0.1, 10, 0), "mult is 0"),
    (lambda: CosineRestarts(0.1, 10, 1.5), "mult is 1.5; expected a whole number"),
    (lambda: Cyclic(0.1, 1, 5, 0), "down is 0"),
    (lambda: Cyclic(0.1, 1, 5, mode="saw"), "mode is 'saw'; expected one of 'triangular', 'triangular2'"),
    (lambda: Cyclic(0.1, 1, 5, gamma=0), "gamma is 0; expected a finite number above 0"),
    (lambda: OneCycle(0.1, 10, warm=1.5), "warm is 1.5; expected a finite number at least 0 and at most 1"),
    (lambda: OneCycle(0.1, 10, anneal="exp"), "anneal is 'exp'; expected one of 'cos', 'linear'"),
    (lambda: OneCycle(0.1, 10, div=0), "div is 0"),
    (lambda: OneCycle(0.1, 10, three_phase=1), "three_phase is 1; expected True or False"),
    (lambda: Warmup(-1, 0.1), "steps is -1; expected a whole number of at least 0"),
    (lambda: Warmup(5, "sgd"), "then begins with 'sgd'; expected a number"),
    (lambda: Warmup(5, True), "then begins with True; expected a number"),
    (lambda: Warmup(5, 0.1, 1.5), "start_factor is 1.5; expected a finite number at least 0 and at most 1"),
    (lambda: Constant(1).then(2, at=-1), "milestones[0] is -1"),
    (lambda: Then([1, 2], []), "sequences has 2 items and milestones 0; expected one sequence more"),
    (lambda: Table([1, 2]).then(3, at=5), "Table([1, 2]) has values for 2 steps, and would need 5"),
    (lambda: Table([]), "values is empty"),
    (lambda: Function(0.1), "fn is 0.1; expected a function"),
    (lambda: Function(math.sqrt, steps=0), "steps is 0"),
    (lambda: Config({"lr": math.nan}), "hyper-parameter 'lr': Constant: value is nan"),
    (lambda: Config({"": 1}), "name is ''; expected a non-empty string"),
    (lambda: Config({1: 1}), "name is 1; expected a non-empty string"),
    (lambda: Config([1]), "made from a mapping"),
    (lambda: Config.from_json([1]), "read from a JSON object"),
    (lambda: as_sequence([1]), "value is [1]"),
    (lambda: Exponential(0.1, 0.9).value(-1), "step is -1; steps are counted from 0"),
    (lambda: Exponential(0.1, 0.9).value(1.5), "step is 1.5; expected a whole number"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_cannot_be_meant_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        make()
