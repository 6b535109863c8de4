"""Tensors and models that training code reads count by their content, and training must not change them."""

from __future__ import annotations

import pytest
import torch

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import Fingerprint, fingerprint
from identity.cells import Cell, trained

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

VALUE = {value}

class Digits:
    def build(self): pass
    def train(self):
        {train}
"""


def made(value: str) -> Fingerprint:
    return fingerprint(Cell(SOURCE.format(value=value, train="return VALUE")).trainer)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.tensor([1.0, 2.0])", "torch.tensor([1.0, 3.0])"),
        ("torch.eye(2).to_sparse()", "torch.zeros(2, 2).to_sparse()"),
        ("torch.ones(2, dtype=torch.bfloat16)", "torch.zeros(2, dtype=torch.bfloat16)"),
        ("torch.float32", "torch.float64"),
        ("torch.device('cpu')", "torch.device('cuda')"),
        ("Net(1)", "Net(2)"),
        ("nn.Dropout(0.1)", "nn.Dropout(0.2)"),
        ("torch.utils.data.TensorDataset(torch.ones(2))", "torch.utils.data.TensorDataset(torch.zeros(2))"),
    ],
)
def test_a_global_counts_by_its_content(one: str, other: str) -> None:
    assert made(one) == made(one)
    assert made(one).digest != made(other).digest


def test_a_model_counts_by_its_weights_and_its_code() -> None:
    cell = Cell(SOURCE.format(value="nn.Linear(2, 2)", train="return VALUE"))
    before = fingerprint(cell.trainer)
    with torch.no_grad():
        cell.names["VALUE"].weight[0, 0] += 1
    assert fingerprint(cell.trainer).digest != before.digest
    edited = SOURCE.replace("self.n = n", "self.n = n + 0").format(value="Net(1)", train="return VALUE")
    assert fingerprint(Cell(edited).trainer).digest != made("Net(1)").digest


def test_a_generator_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"Digits.train reads VALUE.*random generator"):
        made("torch.Generator()")


@pytest.mark.parametrize(
    ("value", "train"),
    [("torch.zeros(3)", "VALUE.add_(1)"), ("nn.Linear(1, 1)", "VALUE.weight.data.add_(1)")],
)
def test_a_change_in_training_is_refused(value: str, train: str) -> None:
    with pytest.raises(TrainerError, match=r"VALUE: changed.*Keep it on self"):
        trained(Cell(SOURCE.format(value=value, train=train)).trainer)


@pytest.mark.parametrize(
    "train",
    ["VALUE.add(1)", "torch.rand(1)", "torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark"],
)
def test_nothing_else_is(train: str) -> None:
    trained(Cell(SOURCE.format(value="torch.zeros(3)", train=train)).trainer)
