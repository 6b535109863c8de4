"""BERT-Base on SQuAD 1.1, as in the Hippo paper. A step is a mini-batch.

Settings: "data", a folder with train-v1.1.json and dev-v1.1.json; "model", a folder with a BERT model and its
tokenizer as `transformers` saves them; "batch_size". Nothing is downloaded.

What the paper leaves open is as usual: AdamW without weight decay, gradients clipped at 1, paragraphs in
windows that begin 128 tokens apart, questions of 64 tokens at most, answers of 30. An epoch has one window of
each question, drawn by chance. Inputs are padded to the sequence length, so that a step takes what its length
says. Attention is computed step by step ("eager"): its faster kernels are not deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.utils.data import TensorDataset
from torchmetrics.functional.text import squad
from transformers import AutoTokenizer, BertForQuestionAnswering

import hippotune as hippo

TRAINING, VALIDATION = "train-v1.1.json", "dev-v1.1.json"
APART = 128
LONGEST_QUESTION, LONGEST_ANSWER = 64, 30
EVALUATED = 32
"""Windows in a batch of an evaluation."""

transformers.logging.set_verbosity_error()  # the layer for answers is new: that is no news
transformers.logging.disable_progress_bar()


class BertSquad(hippo.TorchTrainer):  # type: ignore[misc]
    """Finds the answer to a question in a paragraph."""

    def prepare(self) -> None:
        data = Path(self.settings["data"])
        tokenizer = AutoTokenizer.from_pretrained(self.settings["model"], local_files_only=True)
        self.training, self.validation = (Squad(data / name, tokenizer) for name in (TRAINING, VALIDATION))
        self.numbers = TensorDataset(torch.arange(len(self.training.questions)))

    def build(self) -> None:
        self.model = BertForQuestionAnswering.from_pretrained(
            self.settings["model"], local_files_only=True, attn_implementation="eager"
        ).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-5, weight_decay=0.0)
        self.loader = hippo.Loader(self.numbers, self.settings["batch_size"], seed=self.seed)
        self.length = 384

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        self.length = int(rest.pop("sequence_length", self.length))
        super().setup(rest)

    def train(self) -> None:
        self.model.train()
        for (numbers,) in self.loader.batches(1):
            chances = torch.rand(len(numbers)).tolist()
            windows = []
            for number, chance in zip(numbers.tolist(), chances, strict=True):
                among = self.training.windows(number, self.length)
                windows.append(among[int(chance * len(among))])
            spans = torch.tensor([window.answer for window in windows], device=self.device)
            loss = self.model(
                **self._inputs(windows), start_positions=spans[:, 0], end_positions=spans[:, 1]
            ).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def evaluate(self) -> dict[str, float]:
        """Return the share of answers that are exact, and their F1 score."""
        best: dict[int, tuple[float, str]] = {}
        asked = range(len(self.validation.questions))
        windows = [window for number in asked for window in self.validation.windows(number, self.length)]
        for first in range(0, len(windows), EVALUATED):
            part = windows[first : first + EVALUATED]
            for window, (score, start, end) in zip(part, self._answers(part), strict=True):
                if window.number not in best or score > best[window.number][0]:
                    best[window.number] = score, self.validation.text(window, start, end)
        found = [{"id": str(number), "prediction_text": best[number][1]} for number in asked]
        answers = [
            {"id": str(number), "answers": {"text": texts, "answer_start": [0] * len(texts)}}
            for number, texts in enumerate(self.validation.answers)
        ]
        scores = squad(found, answers)
        return {"accuracy": scores["exact_match"].item() / 100, "f1": scores["f1"].item() / 100}

    def _inputs(self, windows: list[Window]) -> dict[str, torch.Tensor]:
        ids, kinds, mask = np.zeros((3, len(windows), self.length), dtype=np.int64)
        for row, window in enumerate(windows):
            size = len(window.tokens)
            ids[row, :size], mask[row, :size], kinds[row, window.at : size] = window.tokens, 1, 1
        arrays = {"input_ids": ids, "token_type_ids": kinds, "attention_mask": mask}
        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}

    def _answers(self, windows: list[Window]) -> Iterable[tuple[float, int, int]]:
        """Yield the best answer in each window: its score, and its first and last token."""
        inputs = self._inputs(windows)
        output = self.model(**inputs)
        last = torch.tensor([[len(window.tokens) - 1] for window in windows], device=self.device)
        places = torch.arange(self.length, device=self.device)
        in_text = (inputs["token_type_ids"] == 1) & (places < last)
        apart = places - places[:, None]
        allowed = (apart >= 0) & (apart < LONGEST_ANSWER) & in_text[:, :, None] & in_text[:, None, :]
        scores = output.start_logits[:, :, None] + output.end_logits[:, None, :]
        best, where = scores.masked_fill(~allowed, -torch.inf).flatten(1).max(1)
        for score, place in zip(best.tolist(), where.tolist(), strict=True):
            yield score, *divmod(place, self.length)


class Squad:
    """Questions about paragraphs, as tokens."""

    def __init__(self, file: Path, tokenizer: Any) -> None:
        articles = json.loads(file.read_text(encoding="utf-8"))["data"]
        paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
        asked = [(place, each) for place, paragraph in enumerate(paragraphs) for each in paragraph["qas"]]
        self.contexts = [paragraph["context"] for paragraph in paragraphs]
        plain = {"add_special_tokens": False, "verbose": False}
        tokens = tokenizer(self.contexts, return_offsets_mapping=True, **plain)
        self.paragraphs, self.offsets = Rows(tokens["input_ids"]), Rows(tokens["offset_mapping"])
        self.questions = Rows(tokenizer([each["question"] for _, each in asked], **plain)["input_ids"])
        self.about = np.array([place for place, _ in asked])
        self.answers = [[answer["text"] for answer in each["answers"]] for _, each in asked]
        self.spans = np.array([self._span(place, each["answers"][0]) for place, each in asked])
        self.begin, self.between = tokenizer.cls_token_id, tokenizer.sep_token_id

    def _span(self, paragraph: int, answer: Mapping[str, Any]) -> tuple[int, int]:
        """Return the first and the last token of an answer."""
        begins, ends = self.offsets[paragraph].T
        first = int(np.searchsorted(ends, answer["answer_start"], side="right"))
        last = int(np.searchsorted(begins, answer["answer_start"] + len(answer["text"]))) - 1
        return first, max(first, last)

    def windows(self, number: int, length: int) -> list[Window]:
        """Return a question with each part of its paragraph that fits into a length."""
        question = self.questions[number][: min(LONGEST_QUESTION, length // 2)]
        head = [self.begin, *question, self.between]
        text, room = self.paragraphs[int(self.about[number])], length - len(head) - 1
        first, last = self.spans[number]
        found = []
        for begin in range(0, max(len(text) - room, 0) + min(APART, room), min(APART, room)):
            part, shift = text[begin : begin + room], len(head) - begin
            is_there = begin <= first and last < begin + len(part)
            answer = (int(first) + shift, int(last) + shift) if is_there else (0, 0)
            tokens = np.array([*head, *part, self.between])
            found.append(Window(number, tokens, len(head), begin, answer))
        return found

    def text(self, window: Window, start: int, end: int) -> str:
        """Return the text from one token of a window to another."""
        paragraph = int(self.about[window.number])
        offsets, back = self.offsets[paragraph], window.begin - window.at
        context: str = self.contexts[paragraph][offsets[start + back, 0] : offsets[end + back, 1]]
        return context


@dataclass(frozen=True)
class Window:
    """A question and a part of its paragraph, which begins `at` a token, and there with token `begin`."""

    number: int
    tokens: NDArray[np.int64]
    at: int
    begin: int
    answer: tuple[int, int]
    """Its first and last token; twice 0, the very first, where it is not in this part."""


class Rows:
    """Rows of different lengths in one array, because 100,000 arrays would be slow to watch for changes."""

    def __init__(self, rows: list[Any]) -> None:
        self.values = np.concatenate([np.array(row, dtype=np.int32) for row in rows])
        self.ends = np.cumsum([0, *map(len, rows)])

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        return self.values[self.ends[row] : self.ends[row + 1]]
