"""Transformers: a step of Hippo is an epoch of the ``Trainer``'s own loop, or some updates of it.

The ``Trainer`` itself is made anew in every process and holds no state: the model, the optimizer, the place
in the data, the ``TrainerState`` and callbacks are the state, and are put into it before every step.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from hippotune import checks
from hippotune.errors import MissingExtra, TrainerError

try:
    import transformers
    from transformers.trainer import DEFAULT_CALLBACKS
    from transformers.trainer_callback import PrinterCallback, ProgressCallback
    from transformers.trainer_utils import align_special_tokens
except ImportError as error:
    raise MissingExtra(
        "TransformersTrainer needs Transformers and Accelerate: pip install 'hippotune[transformers]'"
    ) from error

import torch

from hippotune.adapters.batches import TUNER, Batches, Held, Live, check_held, check_order, loader_like
from hippotune.trainers import seeding
from hippotune.trainers.torch.trainer import TorchTrainer

_WITH_TOKENS = (transformers.PreTrainedTokenizerBase, transformers.ProcessorMixin)
_NAMES = {"learning_rate": "lr", "per_device_train_batch_size": "bs"}
_IN_ARGUMENTS = ("max_grad_norm",)
_SCHEDULE = (
    'a schedule is a hyper-parameter\'s value: lr=hippo.Warmup(100, hippo.Cosine(...)); set "constant"'
)
_SEED = "the study's seed decides: Study(seed=...)"
_BUILD = "Trainer.train() would do that to the model; do it in build()"
_CHECKPOINTING = f"{_BUILD}: self.model.gradient_checkpointing_enable()"
_HELD: Held = {
    "lr_scheduler_type": (("constant",), _SCHEDULE),
    "warmup_steps": ((0, None), _SCHEDULE),
    "warmup_ratio": ((0, None), _SCHEDULE),
    "max_steps": ((-1,), TUNER),
    "num_train_epochs": ((3,), f"{TUNER}; leave it out"),
    "eval_on_start": ((False,), TUNER),
    "eval_strategy": (("no",), TUNER),
    "save_strategy": (("no",), "Hippo keeps the checkpoints"),
    "load_best_model_at_end": ((False,), "report.best is the best model of all trials"),
    "resume_from_checkpoint": ((None,), "Hippo resumes"),
    "push_to_hub": ((False,), "export the best model of the study instead"),
    "auto_find_batch_size": ((False,), "the batch size is a hyper-parameter: bs"),
    "dataloader_num_workers": ((0,), "batches are prepared in the worker itself"),
    "train_sampling_strategy": (("random",), "Hippo keeps the order of samples"),
    "group_by_length": ((False,), "Hippo keeps the order of samples"),
    "seed": ((42,), _SEED),
    "data_seed": ((None,), _SEED),
    "deepspeed": ((None,), "a worker trains in one process"),
    "fsdp": ((None, False, "", []), "a worker trains in one process"),
    "neftune_noise_alpha": ((None,), _BUILD),
    "use_liger_kernel": ((False,), _BUILD),
    "activation_checkpointing": ((None, False), f"gradient_checkpointing is its old name. {_CHECKPOINTING}"),
    "gradient_checkpointing": ((None, False), _CHECKPOINTING),
}


class TransformersTrainer(TorchTrainer):
    """A ``transformers.Trainer``, trained by its own loop: collator, loss, accumulation, clipping, precision.

    Subclasses make ``self.model`` in `build`, return a ``transformers.Trainer`` for it from `make_trainer`,
    and write `evaluate`. Hyper-parameters: ``lr``, ``weight_decay`` and other fields of the optimizer,
    ``bs``, ``max_grad_norm``.

    Attributes
    ----------
    updates : int or None
        Updates of the optimizer in a step; None for an epoch.
    """

    updates: ClassVar[int | None] = None
    widens = False

    model: Any

    @abstractmethod
    def make_trainer(self) -> transformers.Trainer:
        """Return a ``Trainer`` for ``self.model``, with `arguments`; in every process, for every trial."""

    def arguments(self, **given: Any) -> transformers.TrainingArguments:
        """Return ``TrainingArguments``: a constant rate, nothing saved, nothing reported, unless given."""
        usual = {
            "output_dir": tempfile.gettempdir(),
            "lr_scheduler_type": "constant",
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": self.device.type == "cpu",
        }
        return transformers.TrainingArguments(**{**usual, **given})

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Apply hyper-parameters: to the optimizer, the loader, or the ``TrainingArguments``."""
        if not hasattr(self, "progress"):
            if not isinstance(getattr(self, "model", None), torch.nn.Module):
                raise TrainerError(f"self.model of {type(self).__name__} is no model; make one in build()")
            if self.updates is not None:
                checks.whole("updates", self.updates)
            self._begin()
        rest = {_NAMES.get(name, name): value for name, value in hp.items()}
        self.in_arguments |= {name: rest.pop(name) for name in _IN_ARGUMENTS if name in rest}
        if "weight_decay" in rest:
            decay = rest.pop("weight_decay")
            for group in self.optimizer.param_groups:
                if group[_DECAYS]:
                    group["weight_decay"] = decay
        super().setup(rest)

    def train(self) -> None:
        """Train an epoch, or `updates` of it, by the loop of the ``Trainer``."""
        trainer = self._trainer()
        with self._ready(trainer) as batches:
            model, _ = trainer._prepare_for_training(sys.maxsize, batches, None)
            model.zero_grad()
            trainer.control = trainer.callback_handler.on_epoch_begin(
                trainer.args, trainer.state, trainer.control
            )
            trainer._run_epoch(
                model=model,
                epoch=self.steps,
                train_dataloader=batches,
                steps_in_epoch=len(batches),
                num_update_steps_per_epoch=-(-len(batches) // trainer.args.gradient_accumulation_steps),
                trial=None,
                ignore_keys_for_eval=None,
                start_time=time.time(),
                resume_from_checkpoint=None,
                epochs_trained=0,
                steps_trained_in_current_epoch=0,
            )
        if trainer.control.should_training_stop or trainer.control.should_epoch_stop:
            raise TrainerError(f"a callback of {type(self).__name__} asked to stop training; {TUNER}")
        self.steps += 1

    def metrics(self, dataset: Any = None) -> dict[str, float]:
        """Return what the ``Trainer`` says of a dataset, by default its own: ``eval_loss`` and others."""
        trainer = self._trainer()
        trainer.state = copy.copy(self.progress)
        loader = trainer.get_eval_dataloader(dataset)
        only_loss = True if trainer.compute_metrics is None else None
        try:
            found = trainer.evaluation_loop(loader, "Evaluation", prediction_loss_only=only_loss).metrics
        finally:
            self._put_back(trainer)
        return {name: value for name, value in (found or {}).items() if not name.endswith("_time")}

    # The Trainer, and what is put into it.

    def _begin(self) -> None:
        trainer = self._trainer()
        tokens = trainer.processing_class
        if isinstance(tokens, _WITH_TOKENS) and hasattr(self.model, "config"):
            align_special_tokens(self.model, tokens)  # type: ignore[no-untyped-call]  # as train() does
        self.optimizer = trainer.create_optimizer()
        decaying = set(trainer.get_decay_parameter_names(self.model))
        decaying_ids = {id(part) for name, part in self.model.named_parameters() if name in decaying}
        for group in self.optimizer.param_groups:
            group[_DECAYS] = any(id(part) in decaying_ids for part in group["params"])
        args = trainer.args
        self.loader = loader_like(
            self._live.loader, args.per_device_train_batch_size, self.seed, args.dataloader_drop_last
        )
        self.progress = trainer.state
        self.progress.max_steps = sys.maxsize
        self.callbacks = _own_callbacks(trainer)
        self.in_arguments: dict[str, Any] = {}
        self.scaling: dict[str, Any] | None = None
        self.steps = 0

    def _trainer(self) -> Any:
        """Return the ``Trainer`` of this process, with the state of this trial."""
        if not hasattr(self, "_live"):
            self._live = _Live()
        if self._live.trainer is None:
            with seeding.put_back():  # making one seeds the generators
                self._live.make(self)
        trainer = self._live.trainer
        trainer.model = trainer.model_wrapped = self.model
        return trainer

    @contextmanager
    def _ready(self, trainer: Any) -> Iterator[Batches]:
        for name, value in self.in_arguments.items():
            setattr(trainer.args, name, value)
        trainer.optimizer, trainer.lr_scheduler = self.optimizer, _InForce(self.optimizer)
        trainer.state, trainer.control = self.progress, transformers.TrainerControl()
        trainer.state.stateful_callbacks = {}
        trainer.current_flos = 0
        trainer._tr_loss, trainer._total_loss_scalar = torch.zeros((), device=trainer.args.device), 0.0
        trainer._globalstep_last_logged = trainer.state.global_step
        trainer._initial_num_input_tokens_seen = trainer.state.num_input_tokens_seen
        trainer.is_in_train = True
        scaler = trainer.accelerator.scaler
        if scaler is not None and self.scaling is not None:
            scaler.load_state_dict(self.scaling)
        accumulated = trainer.args.gradient_accumulation_steps
        count = None if self.updates is None else self.updates * accumulated
        try:
            yield Batches(self.loader, self._live.loader, count)
        finally:
            trainer.is_in_train = False
            self.scaling = None if scaler is None else scaler.state_dict()
            self.progress.log_history.clear()
            self._put_back(trainer)

    def _put_back(self, trainer: Any) -> None:
        """Undo what Accelerate did to the model and the optimizer: it is done again before it is needed."""
        attributes = vars(self.model)
        attributes.pop("_is_accelerate_prepared", None)
        if (forward := attributes.pop("_original_forward", None)) is not None:
            del attributes["forward"]
            if getattr(forward, "__func__", None) is not type(self.model).forward:
                self.model.forward = forward
        accelerator = trainer.accelerator
        # As `free_memory` does, but without collecting garbage and emptying the device's cache in every step.
        for prepared in ("_schedulers", "_optimizers", "_models", "_dataloaders"):
            getattr(accelerator, prepared).clear()
        accelerator.step = 0
        trainer.optimizer = None


_DECAYS = "decays"


class _Live(Live):
    """The ``Trainer`` of this process."""

    def make(self, owner: TransformersTrainer) -> None:
        """Have the user make one, check it, and put callbacks with their state into it."""
        trainer = owner.make_trainer()
        if not isinstance(trainer, transformers.Trainer):
            raise TrainerError(f"make_trainer() returned {trainer!r}; expected a transformers.Trainer")
        _check(trainer)
        trainer.args.logging_strategy = transformers.IntervalStrategy.EPOCH  # at the end of a step
        self.loader = trainer.get_train_dataloader()
        check_order(self.loader, f"the training loader of {type(trainer).__name__}")
        handler = trainer.callback_handler
        kept = getattr(owner, "callbacks", None)
        handler.callbacks = [
            *(each for each in handler.callbacks if type(each) in DEFAULT_CALLBACKS),
            *(_own_callbacks(trainer) if kept is None else kept),
            _Log(owner),
        ]
        self.trainer = trainer


class _InForce:
    """Stands for a scheduler: the rates are those that are in force."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def step(self) -> None:
        """Leave everything as it is."""

    def get_last_lr(self) -> list[float]:
        """Return the rates."""
        return [group["lr"] for group in self._optimizer.param_groups]


class _Log(transformers.TrainerCallback):
    """Hands numbers to Hippo."""

    def __init__(self, owner: TransformersTrainer) -> None:
        self._owner = owner

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Take what is logged at the end of a step."""
        numbers = {"loss": "train_loss", "grad_norm": "grad_norm"}
        self._owner.log(**{name: logs[key] for key, name in numbers.items() if key in logs})


def _own_callbacks(trainer: transformers.Trainer) -> list[Any]:
    """Return the user's callbacks: without those that print, report, or steer by default."""
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    others = (*DEFAULT_CALLBACKS, *INTEGRATION_TO_CALLBACK.values(), PrinterCallback, ProgressCallback)
    return [each for each in trainer.callback_handler.callbacks if not isinstance(each, others)]


def _check(trainer: Any) -> None:
    """Raise where an argument cannot hold."""
    dataset = trainer.train_dataset
    if not hasattr(dataset, "__len__"):
        raise TrainerError(
            f"the Trainer has train_dataset={dataset!r}; expected a dataset with a length and "
            "samples by number: Hippo keeps their order"
        )
    check_held(trainer.args, _HELD, "TrainingArguments")
    if trainer.model_init is not None:
        raise TrainerError(
            "the Trainer has a model_init, which is not called in a study: make the model in build()"
        )
    if trainer.lr_scheduler is not None:
        raise TrainerError(
            f"the Trainer has a scheduler of its own, which cannot hold in a study: {_SCHEDULE}"
        )
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, transformers.EarlyStoppingCallback):
            raise TrainerError(
                f"the Trainer has an EarlyStoppingCallback, which cannot hold in a study: {TUNER}"
            )
