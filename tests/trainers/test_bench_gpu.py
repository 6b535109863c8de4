"""The trainers that rerun the published studies on GPUs resume exactly; here on made-up data, on the CPU."""

from __future__ import annotations

import json
import pickle
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForQuestionAnswering, BertTokenizerFast

from hippotune import Config, Piecewise
from trainers.samples import interrupted, uninterrupted

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
try:
    from paper_gpu import settings_of
    from paper_gpu_bert import BertSquad
    from paper_gpu_images import MobileNetV2, ResNet56, augmented
finally:
    sys.path.pop(0)

WORDS = ["where", "is", "the", "river", "bank", "by", "old", "town", "and", "green", "hill", "near", "lake"]
CHANGING = {"lr": 0.05, "bs": Piecewise([4, 6], [1]), "weight_decay": 4e-5}
EVENTS = ["move", "return"]


class SmallResNet(ResNet56):
    blocks = 1


class SmallMobileNet(MobileNetV2):
    blocks = ((1, 8, 1, 1), (2, 8, 1, 1), (2, 12, 2, 2))


@pytest.fixture
def cifar(tmp_path):
    draws = np.random.default_rng(1)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        data = draws.integers(0, 256, (2, 3072), dtype=np.uint8)
        (tmp_path / name).write_bytes(pickle.dumps({b"data": data, b"labels": [3, 7]}))
    return tmp_path


@pytest.fixture
def bert(tmp_path):
    model, data = tmp_path / "model", tmp_path / "data"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    BertTokenizerFast(vocab={word: place for place, word in enumerate(vocabulary)}).save_pretrained(model)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    BertForQuestionAnswering(config).save_pretrained(model)
    context = " ".join(WORDS * 2)
    answer = {"text": "green hill", "answer_start": context.rindex("green hill")}
    questions = [{"question": f"where is the {word} ?", "answers": [answer]} for word in WORDS]
    data.mkdir()
    for name in ("train", "dev"):
        squad = {"data": [{"paragraphs": [{"context": context, "qas": questions}]}]}
        (data / f"{name}-v1.1.json").write_text(json.dumps(squad))
    return {"data": str(data), "model": str(model), "batch_size": 4}


def is_exact(trainer, config, settings):
    whole = uninterrupted(trainer, config, len(EVENTS), settings)
    return interrupted(trainer, config, EVENTS, settings).agrees_with(whole)


@pytest.mark.parametrize(
    ("trainer", "more"),
    [
        (SmallResNet, {"optimizer": "momentum-sgd", "momentum": Piecewise([0.7, 0.9], [1])}),
        (SmallResNet, {"optimizer": "adam"}),
        (SmallMobileNet, {"optimizer": "sgd", "cutout": Piecewise([16, 18], [1])}),
    ],
    ids=["ResNet56-momentum", "ResNet56-Adam", "MobileNetV2"],
)
def test_an_image_network_resumes_exactly_where_values_change(cifar, trainer, more):
    assert is_exact(trainer, Config({**CHANGING, **more}), {"data": str(cifar)})


def test_bert_resumes_exactly_where_the_sequence_length_changes(bert):
    config = Config({"lr": Piecewise([0.01, 0.02], [1]), "sequence_length": Piecewise([16, 24], [1])})
    assert is_exact(BertSquad, config, bert)


def test_windows_cover_a_paragraph_and_know_their_answer(bert):
    trainer = BertSquad(bert)
    trainer.prepare()
    windows = trainer.training.windows(0, 16)
    text = trainer.training.paragraphs[0]
    assert {
        window.begin + place for window in windows for place in range(len(window.tokens) - window.at - 1)
    } == {*range(len(text))}
    assert all(len(window.tokens) <= 16 for window in windows)
    holding = [window for window in windows if window.answer != (0, 0)]
    assert {trainer.training.text(window, *window.answer) for window in holding} == {"green hill"}


def test_networks_have_the_sizes_that_their_authors_give():
    sizes = {
        kind: sum(each.numel() for each in kind().network().parameters()) for kind in (ResNet56, MobileNetV2)
    }
    assert 0.85e6 < sizes[ResNet56] < 0.86e6
    assert 2.2e6 < sizes[MobileNetV2] < 2.4e6


def test_cutout_leaves_a_square_out_of_each_image():
    without = (augmented(torch.ones(64, 1, 32, 32), 16) == 0).flatten(1).sum(1)
    assert without.min() >= 8 * 8
    assert without.max() <= 16 * 16 + 2 * 4 * 32  # and up to four pixels on two sides, by moving it


@pytest.mark.parametrize("study", ["mobilenetv2_grid", "bert_grid"])
def test_a_wrong_folder_is_told_in_one_line(study, tmp_path):
    with pytest.raises(SystemExit, match=r"^--data is .*, which has no .*; expected the folder of [^\n]*$"):
        settings_of(Namespace(study=study, data=tmp_path, model=None))
    with pytest.raises(SystemExit, match=r"^--data is missing; expected [^\n]*$"):
        settings_of(Namespace(study=study, data=None, model=None))
