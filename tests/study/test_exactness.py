"""Sharing never changes a result: every trial of a study has the bits that it has alone, in a plain loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hippotune as hippo
from docs.pages import python
from hippotune import Config, InvalidInput, MultiStep, Piecewise, TrialFailed
from hippotune.executors.base import Job
from hippotune.study.alone import train_alone
from hippotune.trainers.session import Session
from study.walkers import Steps

STEPS = 6
SPACE = hippo.Grid(
    {
        "lr": [0.01, MultiStep(0.01, [3, 5], 0.1)],
        "bs": [4, Piecewise([4, 8], [2])],
    }
)


class Agent:
    """Holds a model where no list of attributes would look for one, and counts outside of tensors."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
        self.target = [parameter.detach().clone() for parameter in self.net.parameters()]
        self.losses: list[float] = []


class Small(hippo.TorchTrainer):
    def prepare(self) -> None:
        x = torch.randn(24, 3)
        self.data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))

    def build(self) -> None:
        self.loader = hippo.Loader(self.data, 4, seed=self.seed)
        self.agent = Agent()
        self.model = self.agent.net
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def train(self) -> None:
        for x, y in self.loader.batches(5):
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            if len(self.agent.losses) % 2:  # every other gradient is added to the one before
                self.optimizer.zero_grad()
            self.agent.losses.append(loss.item())
        for target, parameter in zip(self.agent.target, self.model.parameters(), strict=True):
            target.lerp_(parameter.detach(), 0.1)

    def evaluate(self) -> Mapping[str, float]:
        x, y = self.data.tensors
        loss = nn.functional.mse_loss(self.model(x), y).item()
        target = sum(part.sum().item() for part in self.agent.target)
        return {"loss": loss, "target": target, "noise": torch.rand(()).item()}


def study_of(home: Path, workers: int = 1, share: bool = True) -> hippo.Study:
    executor = hippo.Local(workers=workers, threads=1)
    return hippo.Study("small", Small, home=home, executor=executor, seed=3, share=share)


@pytest.fixture(scope="module")
def alone() -> dict[Config, dict[int, dict[str, float]]]:
    """What a plain loop comes to, in this process: many times quicker than in a fresh one for each trial."""
    job = Job(Small, {}, seed=3)
    return {config: train_alone(job, (config, (4, STEPS))) for config in SPACE}


def states(trainer: Small) -> list[object]:
    """Return the whole state of a trainer: what it computes with, and what its optimizer remembers."""
    net, momenta = trainer.agent.net, trainer.optimizer.state.values()
    gradients = [parameter.grad for parameter in net.parameters()]
    tensors = [*net.state_dict().values(), *gradients, *trainer.agent.target]
    tensors += [momentum["momentum_buffer"] for momentum in momenta]
    return [
        *(tensor if tensor is None else tensor.numpy().tobytes() for tensor in tensors),
        trainer.agent.losses,
    ]


def state_alone(config: Config) -> list[object]:
    session = Session(Small, {}, seed=3)
    session.start(config, 0, None, warm=False)
    for _ in range(STEPS):
        session.advance()
    assert isinstance(session.trainer, Small)
    return states(session.trainer)


@pytest.mark.parametrize(("workers", "share"), [(1, True), (2, True), (2, False)])
def test_every_trial_of_a_study_has_the_bits_that_it_has_alone(
    workers: int,
    share: bool,
    alone: dict[Config, dict[int, dict[str, float]]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if (workers, share) != (2, True):  # proofs, once; elsewhere a fresh interpreter would load torch again
        request.getfixturevalue("unrehearsed")
    with study_of(tmp_path, workers, share) as study:
        tuner = hippo.SuccessiveHalving(SPACE, "loss", "min", min_steps=4, max_steps=STEPS, reduction=2)
        report = study.tune(tuner, progress=False)
        assert len(report.trials) == len(alone)
        for trial in report.trials:
            assert trial.metrics == {step: alone[trial.config][step] for step in trial.metrics}
        last = {config: study.eval(config, STEPS) for config in SPACE}
        if share:
            for config in SPACE:
                assert states(study.load(config, STEPS)) == state_alone(config)
    assert last == {config: metrics[STEPS] for config, metrics in alone.items()}
    if share:
        assert report.work.steps_trained < report.work.steps_requested


def test_the_loop_in_the_documentation_gives_the_same_bits(
    alone: dict[Config, dict[int, dict[str, float]]],
) -> None:
    (loop,) = (block for block in python("trainers") if "def plain_loop" in block)
    config = list(SPACE)[-1]
    names: dict[str, Any] = {}
    exec(loop, names)  # tests/trainers/test_documentation.py has a fresh interpreter on the other side
    assert names["plain_loop"](Small, config, STEPS, seed=3) == alone[config][STEPS]


def test_alone_returns_the_metrics_of_one_step_or_of_several(tmp_path: Path) -> None:
    study = hippo.Study("steps", Steps, home=tmp_path / "home")
    assert study.alone({"by": 2}, 3) == {"count": 6}
    assert study.alone({"by": Piecewise([2, 1], [2])}, range(5)) == {
        0: {"count": 0},
        1: {"count": 2},
        2: {"count": 4},
        3: {"count": 5},
        4: {"count": 6},
    }
    assert not (tmp_path / "home").exists()


def test_alone_shows_the_users_own_traceback(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="ZeroDivisionError") as raised:
        hippo.Study("steps", Steps, home=tmp_path).alone({"by": 0}, 1)
    assert "in train" in str(raised.value).splitlines()[1]


@pytest.mark.parametrize("steps", [-1, [], ["1"]])
def test_alone_refuses_steps_that_are_none(steps: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="steps"):
        hippo.Study("steps", Steps, home=tmp_path).alone({"by": 1}, steps)
