"""A bare script for `startup.py`: imports, builds, trains one mini-batch, and says when."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
inputs, targets = torch.randn(128, 64), torch.randint(10, (128,))
nn.functional.cross_entropy(model(inputs), targets).backward()
optimizer.step()
told = Path(os.environ["HIPPO_BENCH_TOLD"])
told.with_suffix(".part").write_text(str(time.time()))
told.with_suffix(".part").rename(told)
