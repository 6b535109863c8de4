"""Sequences from the schedulers of torch.optim.lr_scheduler.

A scheduler whose meaning a family has becomes that family, so that trials with it are merged by form and have
values at every step. Any other is run on an optimizer of its own, and becomes a table of its values.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from hippotune import checks
from hippotune.errors import InvalidInput, MissingExtra
from hippotune.sequences.base import Sequence
from hippotune.sequences.combined import Then
from hippotune.sequences.custom import Table
from hippotune.sequences.cycles import Cosine, CosineRestarts, Cyclic, OneCycle
from hippotune.sequences.decays import Exponential, Linear, MultiStep, Piecewise, Polynomial, Step
from hippotune.sequences.values import Number, rounded

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler


def from_torch(
    scheduler: LRScheduler | Callable[[Optimizer], LRScheduler],
    lr: Number | None = None,
    *,
    steps: int | None = None,
) -> Sequence:
    """Return the learning rates of a torch scheduler that is stepped once a step.

    Parameters
    ----------
    scheduler : LRScheduler or callable
        A function that makes the scheduler for an optimizer (``lambda optimizer: StepLR(optimizer, 30)``), or
        a scheduler that has not been stepped yet; it is left as it is.
    lr : number, optional
        The optimizer's learning rate, for a function; a scheduler has its own.
    steps : int, optional
        For how many steps a scheduler without a closed form (LambdaLR, ChainedScheduler, your own) is run.
    """
    try:
        from torch.optim.lr_scheduler import LRScheduler
    except ImportError:
        raise MissingExtra(
            "from_torch needs PyTorch; install it with: pip install 'hippotune[torch]'"
        ) from None

    if isinstance(scheduler, LRScheduler):
        if lr is not None:
            raise InvalidInput(f"lr is {lr!r}, but the scheduler has its optimizer's; leave lr out")
        made = scheduler
    elif callable(scheduler):
        made = _made(scheduler, lr)
    else:
        raise InvalidInput(
            f"scheduler is {scheduler!r}; expected a torch scheduler, or a function that makes one"
        )
    _check_static(made)
    first = _now(made)
    sequence = _closed_form(made)
    # Where others have changed the optimizer before, a scheduler goes on from what they left.
    if sequence is not None and math.isclose(first, float(sequence.value(0)), rel_tol=1e-9):
        return sequence
    if steps is None:
        raise InvalidInput(
            f"{type(made).__name__} has no closed form here; pass steps=, the number of steps to take from it"
        )
    return _tabulated(made if made is not scheduler else _copied(made), checks.whole("steps", steps, least=1))


def _made(factory: Callable[[Optimizer], LRScheduler], lr: Number | None) -> LRScheduler:
    import torch
    from torch.optim.lr_scheduler import LRScheduler

    if lr is None:
        raise InvalidInput(
            "lr is missing; a function that makes a scheduler needs the learning rate it starts from"
        )
    weight = torch.zeros(1, requires_grad=True)
    made = factory(torch.optim.SGD([weight], lr=checks.number("lr", lr)))
    if not isinstance(made, LRScheduler):
        raise InvalidInput(f"{factory!r} made {made!r}; expected a scheduler of torch.optim.lr_scheduler")
    return made


def _check_static(scheduler: Any) -> None:
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    if isinstance(scheduler, ReduceLROnPlateau):
        raise InvalidInput(
            "ReduceLROnPlateau decides by metrics; a sequence's values must be known before training. "
            "Step it inside the trainer, or search over the milestones of MultiStep"
        )
    stepped = max(
        getattr(part, "last_epoch", 0) for part in (scheduler, *getattr(scheduler, "_schedulers", ()))
    )
    if stepped > 0:
        raise InvalidInput(
            f"the {type(scheduler).__name__} has been stepped {stepped} times; expected a new one"
        )


def _now(scheduler: LRScheduler) -> float:
    return _one("the optimizer's learning rates", (group["lr"] for group in scheduler.optimizer.param_groups))


def _one(what: str, values: Iterable[Any]) -> float:
    numbers = [float(value) for value in values]
    if len(set(numbers)) != 1:
        raise InvalidInput(f"{what} are {numbers}; expected one for all groups (make a sequence for each)")
    return numbers[0]


def _copied(scheduler: LRScheduler) -> LRScheduler:
    """Return a copy with an optimizer of its own; the parameters, which stay unchanged, are shared."""
    groups = scheduler.optimizer.param_groups
    shared = {id(parameter): parameter for group in groups for parameter in group["params"]}
    return copy.deepcopy(scheduler, shared)


def _tabulated(scheduler: LRScheduler, steps: int) -> Table:
    values = [_now(scheduler)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch misses optimizer.step(), which has nothing to do here
        for _ in range(steps - 1):
            scheduler.step()
            values.append(_now(scheduler))
    return Table(values)


def _closed_form(scheduler: Any) -> Sequence | None:
    """Return the family with the same values at every step, or None."""
    from torch.optim import lr_scheduler

    kind = type(scheduler)  # not a subclass: it may do something else
    convert = _CONVERSIONS.get(kind.__name__)
    if convert is None or kind is not getattr(lr_scheduler, kind.__name__, None):
        return None
    try:
        return convert(scheduler)
    except (InvalidInput, ArithmeticError, AttributeError):  # beyond what the family means, or another torch
        return None


def _base(scheduler: Any) -> float:
    return _one("the learning rates", scheduler.base_lrs)


def _times(lr: float, factor: float) -> float:
    return float(Decimal(repr(lr)) * Decimal(repr(factor)))


def _constant(scheduler: Any) -> Sequence | None:
    lr, factor, total = _base(scheduler), float(scheduler.factor), scheduler.total_iters
    return Piecewise([_times(lr, factor), lr], [total]) if factor > 0 and total > 0 else None


def _linear(scheduler: Any) -> Sequence:
    lr = _base(scheduler)
    first, last = _times(lr, float(scheduler.start_factor)), _times(lr, float(scheduler.end_factor))
    return Linear(first, last, scheduler.total_iters)


def _cyclic(scheduler: Any) -> Sequence | None:
    if scheduler._scale_fn_custom is not None:
        return None
    total = scheduler.total_size
    up = round(total * scheduler.step_ratio)
    if not math.isclose(up, total * scheduler.step_ratio) or total != int(total):
        return None
    low, high = _base(scheduler), _one("max_lrs", scheduler.max_lrs)
    down = None if total == 2 * up else int(total) - up
    return Cyclic(low, high, up, down, scheduler.mode, scheduler.gamma)


def _one_cycle(scheduler: Any) -> Sequence:
    def bound(name: str) -> Decimal:
        return Decimal(repr(_one(name, (group[name] for group in scheduler.optimizer.param_groups))))

    initial, peak, final = bound("initial_lr"), bound("max_lr"), bound("min_lr")
    phases, steps = scheduler._schedule_phases, scheduler.total_steps
    warm = (phases[0]["end_step"] + 1) / steps
    return OneCycle(
        float(peak),
        steps,
        rounded(Decimal(repr(warm))),
        scheduler._anneal_func_type,
        div=rounded(peak / initial),
        final_div=rounded(initial / final),
        three_phase=len(phases) == 3,
    )


def _sequential(scheduler: Any) -> Sequence | None:
    parts = [_closed_form(part) for part in scheduler._schedulers if not hasattr(part, "_schedulers")]
    known = [part for part in parts if part is not None]
    return Then(known, scheduler._milestones) if len(known) == len(scheduler._schedulers) else None


_CONVERSIONS: Final[dict[str, Callable[[Any], Sequence | None]]] = {
    "StepLR": lambda s: Step(_base(s), s.step_size, s.gamma),
    "MultiStepLR": lambda s: MultiStep(_base(s), sorted(s.milestones.elements()), s.gamma),
    "ConstantLR": _constant,
    "LinearLR": _linear,
    "ExponentialLR": lambda s: Exponential(_base(s), s.gamma),
    "PolynomialLR": lambda s: Polynomial(_base(s), s.total_iters, s.power),
    "CosineAnnealingLR": lambda s: Cosine(_base(s), s.T_max, s.eta_min),
    "CosineAnnealingWarmRestarts": lambda s: CosineRestarts(_base(s), s.T_0, s.T_mult, s.eta_min),
    "CyclicLR": _cyclic,
    "OneCycleLR": _one_cycle,
    "SequentialLR": _sequential,
}
