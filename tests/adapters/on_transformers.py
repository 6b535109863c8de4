"""A trainer on Transformers that tests train, kill and compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers

import hippotune as hippo
from adapters.common import bits, kill_once
from hippotune import Exponential, MultiStep, Piecewise

UPDATES = 3
SPACE = {
    "lr": [0.01, MultiStep(0.01, [4], 0.5), Exponential(0.01, 0.9), MultiStep(0.01, [2], 0.5)],
    "bs": [4, Piecewise([4, 6], [3])],
}


def make_texts(count: int = 30) -> list[dict[str, Any]]:
    draws = torch.Generator().manual_seed(1)
    lengths = torch.randint(4, 9, (count,), generator=draws).tolist()
    return [{"input_ids": torch.randint(3, 20, (length,), generator=draws).tolist()} for length in lengths]


def make_model() -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Pad to the longest, and drop a token at random: a collator that draws."""
    longest = max(len(each["input_ids"]) for each in samples)
    ids = torch.tensor([each["input_ids"] + [0] * (longest - len(each["input_ids"])) for each in samples])
    ids[torch.rand(ids.shape) < 0.05] = 2
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


class Count(transformers.TrainerCallback):
    """A callback with a state."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.seen.append(state.global_step)


class GPT(hippo.adapters.TransformersTrainer):
    updates = UPDATES

    def prepare(self) -> None:
        self.texts = make_texts()

    def build(self) -> None:
        self.model = make_model()

    def make_trainer(self) -> transformers.Trainer:
        args = self.arguments(
            per_device_train_batch_size=4, gradient_accumulation_steps=2, max_grad_norm=0.5, weight_decay=0.1
        )
        return transformers.Trainer(
            self.model,
            args,
            data_collator=collate,
            train_dataset=self.texts,
            eval_dataset=self.texts[:8],
            callbacks=[Count()],
        )

    def train(self) -> None:
        kill_once(self, self.steps)
        super().train()

    def evaluate(self) -> Mapping[str, float]:
        weights = torch.cat([part.detach().flatten() for part in self.model.parameters()])
        seen = sum(self.callbacks[0].seen)
        return {"loss": self.metrics()["eval_loss"], "bits": bits(weights.numpy()), "seen": seen}
