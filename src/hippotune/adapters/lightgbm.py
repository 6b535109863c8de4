"""LightGBM: ``lightgbm.train``'s loop, with sampling that begins anew at every step.

A booster that is loaded has trees and no data. It goes on as LightGBM's own continued training does: what its
trees say of the data is where a new booster starts from, and the trees are put in front of those to come.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hippotune.errors import MissingExtra, TrainerError

try:
    import lightgbm
    from lightgbm import basic
except ImportError as error:
    raise MissingExtra("LightGBMTrainer needs LightGBM: pip install 'hippotune[lightgbm]'") from error

from hippotune.adapters.boosting import BoostingTrainer, because, refused_by_all, step_seed
from hippotune.short import listed
from hippotune.trainers.base import UserCall

_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "objective_seed")
_FRACTION = "bagging_fraction"
# How often rows are drawn, and which share of all rows, of positive and of negative ones.
_BAGGING = {"bagging_freq": 0, _FRACTION: 1.0, "pos_bagging_fraction": 1.0, "neg_bagging_fraction": 1.0}
_NO_CHECKPOINT = "LightGBM keeps part of its state where no checkpoint reaches"
_HELD = {  # the values that hold, of what would be refused otherwise
    "boosting": "gbdt",
    "data_sample_strategy": "bagging",
    "linear_tree": False,
    "use_quantized_grad": False,
}


class LightGBMTrainer(BoostingTrainer):
    """A `Booster` of LightGBM, trained by ``booster.update``.

    Subclasses leave a ``Dataset(..., free_raw_data=False)`` in ``self.data`` in `prepare`, name ``params``,
    and write `evaluate`. Hyper-parameters are those of LightGBM: ``learning_rate``, ``num_leaves``, …
    """

    library = "LightGBM"
    refused = (  # by their main names
        refused_by_all(
            steps="num_iterations",
            seeds="seed drop_seed " + " ".join(_SEEDS),
            stopping="early_stopping_round",
        )
        | because("input_model", "a trial starts from scratch or from a checkpoint")
        | because(" ".join(_HELD), f"{_NO_CHECKPOINT}; expected plain boosting, with bagging or without")
        | because(
            "cegb_penalty_feature_coupled cegb_penalty_feature_lazy",
            f"{_NO_CHECKPOINT}, here which features were paid for; expected cegb_penalty_split at most",
        )
    )

    def check(self, given: Any, where: str) -> None:
        """Raise where something cannot hold."""
        super().check(
            {name: given[name] for name in given if given[name] != _HELD.get(self.main_name(name), ...)},
            where,
        )

    def begin(self) -> None:
        """Make a booster without a tree."""
        data = getattr(self, "data", None)
        if not isinstance(data, lightgbm.Dataset):
            raise TrainerError(
                f"self.data of {type(self).__name__} is {data!r}; expected a lightgbm.Dataset to train on: "
                "leave it there in prepare()"
            )
        if data.free_raw_data:
            raise TrainerError(
                "self.data has free_raw_data=True; expected free_raw_data=False: a booster that is loaded "
                "predicts on the data before it goes on"
            )
        if data.init_score is not None:
            raise TrainerError(
                "self.data has an init_score; expected none: a trial that goes on from a checkpoint starts "
                "from the scores of its own trees"
            )
        if getattr(data, "position", None) is not None:
            raise TrainerError(
                f"self.data has positions; expected none: {_NO_CHECKPOINT}, here the bias of each position"
            )
        self.trees = Trees()

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Hand hyper-parameters to LightGBM, by the names that it knows."""
        if of_data := lightgbm.Dataset(None, params=dict(hp)).get_params():
            raise TrainerError(
                f"{listed(of_data)} cannot be a hyper-parameter: it decides how the Dataset is made, which "
                f"is done once, after prepare(). Put it into params of {type(self).__name__}"
            )
        before = self._bagging()
        super().setup(hp)
        frequency, *_ = self._bagging()
        if frequency and self.rounds % frequency:
            raise TrainerError(
                f"bagging_freq is {frequency}, and a step has {self.rounds} rounds; expected rounds to be a "
                "multiple of bagging_freq, because rows are drawn anew at every step"
            )
        if self._bagging() != before:
            self.trees.close()  # a booster of LightGBM that has begun cannot change it in all cases

    def apply(self, values: dict[str, Any]) -> None:
        """Put values into force."""
        if self.trees.is_open:
            self.trees.booster.reset_parameter(values)

    def main_name(self, name: str) -> str:
        """Return LightGBM's main name of a parameter."""
        return _main_names().get(name, name)

    def unused(self, given: Mapping[str, Any]) -> list[str]:
        """Return what LightGBM does not know."""
        return [name for name in given if name not in _main_names()]

    def begin_step(self) -> None:
        """Begin sampling anew."""
        if not self.trees.is_open:
            self._open()
        begin_sampling(self.booster, step_seed(self.seed, self.round))

    def boost(self) -> None:
        """Train a round. To be overridden for an objective of one's own: ``booster.update(fobj=...)``."""
        self.booster.update()

    @property
    def booster(self) -> lightgbm.Booster:
        """The model."""
        if self.trees.booster is None:
            self._open()
        booster: lightgbm.Booster = self.trees.booster
        return booster

    def _open(self) -> None:
        self.trees.open(self._fixed, self.data)
        self.trees.booster.reset_parameter(self.in_force)

    @contextmanager
    def around(self, call: UserCall) -> Iterator[None]:
        """Bin the data right after `prepare`, with all parameters that matter to it."""
        yield
        if call == "prepare" and isinstance(getattr(self, "data", None), lightgbm.Dataset):
            self.check(self.params, "params")  # LightGBM's own errors are about other things
            lightgbm.Booster(self._fixed, self.data)

    @property
    def _fixed(self) -> dict[str, Any]:
        return {"verbosity": -1, **self.params}

    def _bagging(self) -> list[Any]:
        return [self.value(name, default) for name, default in _BAGGING.items()]


@functools.cache
def _main_names() -> dict[str, str]:
    """Return every name of a parameter that LightGBM knows, with the main name of that parameter."""
    table = basic._ConfigAliases._get_all_param_aliases()
    return {name: main for main, names in table.items() for name in names}


class Trees:
    """A booster, saved as the text of its trees. Open, it has data and can be trained."""

    def __init__(self) -> None:
        self.booster: Any = None
        self.is_open = False

    def open(self, params: dict[str, Any], data: lightgbm.Dataset) -> None:
        """Give the trees data to be trained on."""
        before, self.is_open = self.booster, True
        if before is None or not before.num_trees():
            self.booster = lightgbm.Booster(params, data)
            return
        scores = before.predict(data.get_data(), raw_score=True)
        version = data.version
        data.set_field("init_score", scores.ravel(order="F"))
        try:
            self.booster = lightgbm.Booster(params, data)  # copies the scores
        finally:
            data.set_field("init_score", None)
            data.version = self.booster.train_set_version = version
        basic._safe_call(basic._LIB.LGBM_BoosterMerge(self.booster._handle, before._handle))  # type: ignore[attr-defined]

    def close(self) -> None:
        """Take the data away."""
        self.is_open = False

    def __getstate__(self) -> str:
        if self.booster is None or not self.booster.num_trees():
            return ""
        return str(self.booster.model_to_string(num_iteration=-1))

    def __setstate__(self, text: str) -> None:
        self.booster = lightgbm.Booster(model_str=text) if text else None
        self.is_open = False


def begin_sampling(booster: lightgbm.Booster, seed: int) -> None:
    """Forget what a booster drew before: as in one that was made a moment ago, with this seed.

    LightGBM seeds the sampling of columns anew where the seed changes, and that of rows where the fraction
    does: so it changes, and changes back.
    """
    names = {_main_names().get(name, name): name for name in booster.params}
    name = names.get(_FRACTION, _FRACTION)  # under the name that it was given by
    frequency, fraction, *of_classes = (
        booster.params.get(names.get(main, main), default) for main, default in _BAGGING.items()
    )
    seeds = dict.fromkeys(_SEEDS, seed)
    if frequency and min(fraction, *of_classes) < 1:
        booster.reset_parameter({name: fraction / 2})
        booster.reset_parameter({name: fraction, **seeds})
    else:
        booster.reset_parameter(seeds)
