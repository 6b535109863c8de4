"""XGBoost: ``xgboost.train``'s loop, with sampling that begins anew at every step."""

from __future__ import annotations

import functools
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from hippotune.errors import MissingExtra, TrainerError

try:
    import numpy
    import xgboost
except ImportError as error:
    raise MissingExtra("XGBoostTrainer needs XGBoost: pip install 'hippotune[xgboost]'") from error

from hippotune.adapters.boosting import BoostingTrainer, because, refused_by_all


class XGBoostTrainer(BoostingTrainer):
    """A `Booster` of XGBoost, trained by ``booster.update``.

    Subclasses leave a ``DMatrix`` in ``self.data`` in `prepare`, name ``params``, and write `evaluate`.
    Hyper-parameters are those of XGBoost: ``eta``, ``max_depth``, ``subsample``, …
    """

    library = "XGBoost"
    refused = (
        refused_by_all(
            steps="num_boost_round num_round n_estimators",
            seeds="seed seed_per_iteration",
            stopping="early_stopping_rounds",
        )
        | because("updater", "it follows from tree_method; leave it out")
        | because("process_type", "a step adds rounds; it does not change old ones")
    )

    def begin(self) -> None:
        """Make a booster without a tree."""
        if not isinstance(getattr(self, "data", None), xgboost.DMatrix):
            raise TrainerError(
                f"self.data of {type(self).__name__} is {getattr(self, 'data', None)!r}; expected an "
                "xgboost.DMatrix to train on: leave it there in prepare()"
            )
        self.booster = Model({**self.params, "seed_per_iteration": True}, self.data)

    def apply(self, values: dict[str, Any]) -> None:
        """Put values into force."""
        self.booster.put(values)

    def main_name(self, name: str) -> str:
        """Return XGBoost's main name of a parameter."""
        return _main_name(name)

    def unused(self, given: Mapping[str, Any]) -> list[str]:
        """Return what XGBoost says that it does not use."""
        params = {name: value for name, value in given.items() if name != "verbosity"}
        with xgboost.config_context(verbosity=1), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            xgboost.Booster(params, [self.data]).save_config()  # configures
        found = (re.search(r"Parameters: \{(.*)\} are not used", str(warning.message)) for warning in said)
        return [name for each in found if each for name in re.findall(r'"([^"]*)"', each[1])]

    def begin_step(self) -> None:
        """Begin sampling anew."""
        begin_sampling(self.booster, self.seed)

    def boost(self) -> None:
        """Train a round. To be overridden for an objective of one's own: ``update(..., fobj=...)``."""
        self.booster.update(self.data, self.round)

    def scores(self, **data: xgboost.DMatrix) -> dict[str, float]:
        """Return the booster's ``eval_metric`` on data: ``scores(val=...)`` is ``{"val_logloss": ...}``."""
        text = str(self.booster.eval_set([(matrix, name) for name, matrix in data.items()], self.round))
        pairs = (part.rsplit(":", 1) for part in text.split("\t")[1:])
        return {name.replace("-", "_", 1): float(number) for name, number in pairs}


class Model(xgboost.Booster):
    """A booster that is saved as its model and its parameters, without what XGBoost derives from them."""

    def __init__(self, params: dict[str, Any], source: xgboost.DMatrix | bytearray) -> None:
        if isinstance(source, bytearray):
            super().__init__(params, model_file=source)
        else:
            super().__init__(params, [source])
        self.given = params

    def put(self, params: dict[str, Any]) -> None:
        """Set parameters."""
        self.given |= params
        self.set_param(params)

    def __reduce__(self) -> tuple[Any, ...]:
        return _saved, (dict(self.given), bytes(self.save_raw()))


def _saved(params: dict[str, Any], raw: bytes) -> Model:
    return Model(params, bytearray(raw))


@functools.cache
def _main_name(name: str) -> str:
    """Return XGBoost's main name of a parameter: it says it of one that is no number."""
    data = xgboost.DMatrix(numpy.zeros((1, 1)))  # a booster does not keep it
    try:
        with xgboost.config_context(verbosity=0):
            xgboost.Booster({name: "?"}, [data]).save_config()
    except xgboost.core.XGBoostError as error:
        found = re.search(r"Invalid Parameter format for (\w+)", str(error))
        return found[1] if found else name
    return name


def begin_sampling(booster: xgboost.Booster, seed: int) -> None:
    """Forget what a booster drew before: as in a booster that was loaded a moment ago.

    The sampler of columns lives as long as the updater that grows trees. Another method brings another
    updater, once it is configured; then the first method's is made anew.
    """
    method = _tree_method(booster)
    if method is not None:
        booster.set_param({"tree_method": "hist" if method in ("approx", "exact") else "approx"})
        booster.save_config()  # configures
        booster.set_param({"tree_method": method})
    booster.set_param({"seed": seed % 2**31})


def _tree_method(booster: xgboost.Booster) -> str | None:
    """Return how a booster grows trees; None for a linear one."""
    kind = json.loads(booster.save_config())["learner"]["gradient_booster"]
    trees = kind.get("gbtree", kind)  # the trees of DART are in a booster of their own
    method: str | None = trees.get("gbtree_train_param", {}).get("tree_method")
    return method
