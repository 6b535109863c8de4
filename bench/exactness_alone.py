"""One trial by a plain loop, in a process of its own: what every study has to agree with, bit for bit.

The loop knows nothing of the engine. The process is a fork of one that has imported everything and has run
nothing, so that no trial sees what another one left behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from hippotune import Config

Measured = dict[int, dict[str, str]]  # step -> metric -> the number's bits, as float.hex() writes them


class Trained(Protocol):
    """What the loop calls."""

    def build(self) -> None: ...
    def setup(self, hp: Mapping[str, Any]) -> None: ...
    def train(self) -> None: ...
    def evaluate(self) -> Mapping[str, float]: ...


def bits(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return metrics as text in which equal means equal in every bit."""
    return {name: float(value).hex() for name, value in metrics.items()}


def trained_alone(trainer: Any, config: Config, steps: tuple[int, ...], seed: int = 0) -> Measured:
    """Train one config from scratch, and return what it measures after each of `steps`."""
    _seed(seed)
    trial = trainer({}, seed)
    if hasattr(trial, "prepare"):
        _seed(seed)
        trial.prepare()
    _seed(seed)
    trial.build()
    trial.setup(config.values(0))
    measured: Measured = {}
    for step in range(max(steps)):
        if step and (changes := config.changes(step)):
            trial.setup(changes)
        trial.train()
        if step + 1 in steps:
            with _random_state_put_back(), _evaluating(trial):
                measured[step + 1] = bits(trial.evaluate())
    return measured


def in_a_fork(call: Callable[[], Any]) -> Any:
    """Return what `call` returns in a fork; `RuntimeError` with its traceback if it raises."""
    return fork(call)[1]()


def fork(call: Callable[[], Any]) -> tuple[int, Callable[[], Any]]:
    """Start `call` in a fork; return a pipe that is ready when it ends, and what reads its answer."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = pickle.dumps((True, call()))
        except BaseException:
            said = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writing, "wb") as out:
            out.write(said)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    return reading, partial(_answer, reading, child)


def _answer(reading: int, child: int) -> Any:
    try:
        with os.fdopen(reading, "rb") as pipe:
            went_well, value = pickle.load(pipe)
    except EOFError:
        raise RuntimeError("the process died without an answer") from None
    finally:
        os.waitpid(child, 0)
    if not went_well:
        raise RuntimeError(value)
    return value


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


@contextlib.contextmanager
def _random_state_put_back() -> Iterator[None]:
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()
    state = None if torch is None else torch.get_rng_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)
    if torch is not None:
        torch.set_rng_state(state)


@contextlib.contextmanager
def _evaluating(trial: Trained) -> Iterator[None]:
    """Put modules on a torch trainer into evaluation mode, without gradients, as evaluate() is promised.

    Weights that hooks compute in every call are put back too.
    """
    import hippotune as hippo

    if "torch" not in sys.modules or not isinstance(trial, hippo.TorchTrainer):
        yield
        return
    import torch

    owners = [value for value in vars(trial).values() if isinstance(value, torch.nn.Module)]
    modes = [(module, module.training) for owner in owners for module in owner.modules()]
    tensors = [
        (module, name, value)
        for module, _ in modes
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    ]
    for module, _ in modes:
        module.training = False
    with torch.no_grad():
        yield
    for module, mode in modes:
        module.training = mode
    for module, name, value in tensors:
        vars(module)[name] = value
