"""Schedulers of torch as sequences: families where there is one, tables of what they did elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from hippotune.errors import InvalidInput
from hippotune.sequences import (
    Cosine,
    CosineRestarts,
    Cyclic,
    Exponential,
    Linear,
    MultiStep,
    OneCycle,
    Piecewise,
    Polynomial,
    Sequence,
    Step,
    Table,
    as_sequence,
    from_torch,
)
from sequences.schedulers import run

Make = Callable[[Optimizer], LRScheduler]


def optimizer(lr: float = 0.1) -> Optimizer:
    return torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=lr)


KNOWN: list[tuple[Make, Sequence]] = [
    (lambda o: lr_scheduler.StepLR(o, 30), Step(0.1, 30)),
    (lambda o: lr_scheduler.MultiStepLR(o, [60, 30], 0.5), MultiStep(0.1, [30, 60], 0.5)),
    (lambda o: lr_scheduler.ConstantLR(o, 0.5, 7), Piecewise([0.05, 0.1], [7])),
    (lambda o: lr_scheduler.LinearLR(o, 0.1, 0.5, 20), Linear(0.01, 0.05, 20)),
    (lambda o: lr_scheduler.ExponentialLR(o, 0.95), Exponential(0.1, 0.95)),
    (lambda o: lr_scheduler.PolynomialLR(o, 50, 2.0), Polynomial(0.1, 50, 2.0)),
    (lambda o: lr_scheduler.CosineAnnealingLR(o, 40, 0.001), Cosine(0.1, 40, 0.001)),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10, 2), CosineRestarts(0.1, 10, 2, 0.0)),
    (lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.1, 20), Cyclic(0.001, 0.1, 20)),
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.1, 5, 20, "exp_range", 0.99),
        Cyclic(0.001, 0.1, 5, 20, "exp_range", 0.99),
    ),
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 100), OneCycle(1.0, 100)),
    (
        lambda o: lr_scheduler.OneCycleLR(
            o, 1.0, 100, pct_start=0.37, anneal_strategy="linear", three_phase=True
        ),
        OneCycle(1.0, 100, 0.37, "linear", three_phase=True),
    ),
    (
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.LinearLR(o, 0.1, total_iters=5), lr_scheduler.ExponentialLR(o, 0.9)], [5]
        ),
        Linear(0.01, 0.1, 5).then(Exponential(0.1, 0.9), at=5),
    ),
    (
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.StepLR(o, 4), lr_scheduler.CyclicLR(o, 0.01, 0.1, 5)], [10]
        ),
        Step(0.1, 4).then(Cyclic(0.01, 0.1, 5), at=10),
    ),
]


@pytest.mark.filterwarnings("ignore:The epoch parameter", "ignore:Detected call")
@pytest.mark.parametrize(("make", "expected"), KNOWN)
def test_a_known_scheduler_becomes_the_family_that_means_the_same(make: Make, expected: Sequence) -> None:
    assert from_torch(make, 0.1) == expected
    assert from_torch(make(optimizer())) == expected
    assert [expected.value(step) for step in range(100)] == pytest.approx(run(make, 0.1, 100), abs=1e-9)


def quadratic(step: int) -> float:
    return 1 / (1 + step) ** 2


class Sawtooth(lr_scheduler.StepLR):
    """A user's own scheduler: a subclass of a known one that does something else."""

    def get_lr(self) -> list[float | torch.Tensor]:
        return [0.1 * (1 + self.last_epoch % 3) for _ in self.base_lrs]


UNKNOWN: list[Make] = [
    lambda o: lr_scheduler.LambdaLR(o, quadratic),
    lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9 if step % 2 else 1.1),
    lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 5), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    lambda o: Sawtooth(o, 10),
    lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 5, scale_fn=lambda cycle: 0.3),
    lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=0),
    lambda o: lr_scheduler.ConstantLR(o, 0.1, total_iters=0),
]


@pytest.mark.parametrize("make", UNKNOWN)
def test_any_other_scheduler_is_run_and_becomes_a_table(make: Make) -> None:
    expected = Table(run(make, 0.1, 25))
    assert from_torch(make, 0.1, steps=25) == expected
    assert from_torch(make(optimizer()), steps=25) == expected
    with pytest.raises(InvalidInput, match="steps="):
        from_torch(make, 0.1)


def test_running_a_scheduler_leaves_it_and_its_optimizer_as_they_are() -> None:
    own = optimizer()
    scheduler = lr_scheduler.LambdaLR(own, quadratic)
    weight = own.param_groups[0]["params"][0]
    weight.grad = torch.ones(2)
    from_torch(scheduler, steps=10)
    assert own.param_groups[0]["lr"] == 0.1
    assert scheduler.last_epoch == 0
    assert weight.tolist() == [1.0, 1.0]


def test_a_scheduler_that_goes_on_from_what_another_left_is_not_taken_for_its_closed_form() -> None:
    own = optimizer()
    lr_scheduler.ConstantLR(own, 0.5, 100)
    second = lr_scheduler.ExponentialLR(own, 0.9)
    sequence = from_torch(second, steps=3)
    assert [sequence.value(step) for step in range(3)] == [0.05, 0.045, 0.0405]


def test_a_scheduler_that_decides_by_metrics_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ReduceLROnPlateau decides by metrics"):
        from_torch(lambda o: lr_scheduler.ReduceLROnPlateau(o), 0.1, steps=10)


@pytest.mark.filterwarnings("ignore:Detected call")
def test_a_scheduler_that_has_been_stepped_is_refused() -> None:
    scheduler = lr_scheduler.StepLR(optimizer(), 30)
    scheduler.step()
    with pytest.raises(InvalidInput, match="stepped 1 times"):
        from_torch(scheduler)


def test_parameter_groups_with_different_rates_are_refused() -> None:
    groups = [{"params": [torch.ones(1)], "lr": rate} for rate in (0.1, 0.2)]
    with pytest.raises(InvalidInput, match=r"\[0.1, 0.2\]"):
        from_torch(lr_scheduler.StepLR(torch.optim.SGD(groups), 30))


def test_what_is_no_scheduler_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected a scheduler"):
        from_torch(lambda o: o, 0.1)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match="function that makes one"):
        from_torch(0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="lr is missing"):
        from_torch(lambda o: lr_scheduler.StepLR(o, 30))
    with pytest.raises(InvalidInput, match="leave lr out"):
        from_torch(lr_scheduler.StepLR(optimizer(), 30), 0.1)


@pytest.mark.parametrize("number", [2, 0.5, 1234567890123])
def test_a_scalar_tensor_is_the_number_that_it_holds(number: float) -> None:
    value = as_sequence(torch.tensor(number, dtype=torch.float64)).value(0)
    assert (type(value), value) == (type(number), number)
    assert Piecewise([torch.tensor(number), 1], [5]) == Piecewise([number, 1], [5])
