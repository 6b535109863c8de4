"""scikit-learn: estimators that are trained further, by ``partial_fit`` or with ``warm_start``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from hippotune import checks
from hippotune.errors import MissingExtra, TrainerError

try:
    from sklearn.base import is_classifier
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import _safe_indexing
except ImportError as error:
    raise MissingExtra("SklearnTrainer needs scikit-learn: pip install 'hippotune[sklearn]'") from error

from hippotune.trainers.base import Trainer
from hippotune.trainers.torch.order import SampleOrder

_BATCH_SIZE = ("batch_size", "bs")
_LENGTH = ("n_estimators", "max_iter")


class SklearnTrainer(Trainer):
    """An estimator that is trained further in every step.

    Subclasses leave ``self.data = X, y`` in `prepare`, ``self.estimator`` in `build`, and write `evaluate`.
    Hyper-parameters are the estimator's own, set by ``set_params``; and ``bs`` or ``batch_size``.

    An estimator with ``warm_start=True`` grows by `rounds` in each step: trees, where it has
    ``n_estimators``, iterations otherwise. All others need ``partial_fit``: a step goes through all of the
    data once, in batches, in an order that is a function of the seed and the epoch.

    Attributes
    ----------
    rounds : int
        How much a step adds to an estimator with ``warm_start``.
    batch_size : int
        Rows of a call of ``partial_fit``, where it is no hyper-parameter.
    fitted : bool
        Whether a step was trained. An estimator cannot predict before.
    """

    rounds: ClassVar[int] = 1
    batch_size: ClassVar[int] = 256

    data: Any
    estimator: Any

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Set the estimator's parameters, and the size of batches."""
        if not hasattr(self, "order"):
            self._begin()
        own = {name: value for name, value in hp.items() if name not in _BATCH_SIZE}
        known = self.estimator.get_params()
        for name in own:
            if name not in known or name in _LENGTH:
                why = "follows from the steps" if name in _LENGTH else "is no parameter of it"
                raise TrainerError(
                    f"{name!r} cannot be set on {type(self.estimator).__name__}: it {why}. It takes "
                    f"{', '.join(map(repr, sorted({*known, *_BATCH_SIZE} - {*_LENGTH})))}"
                )
        self.estimator.set_params(**own)
        for option, expected in _stops(self.estimator):
            raise TrainerError(
                f"{type(self.estimator).__name__} has {option}={getattr(self.estimator, option)!r}, which "
                f"cannot hold in a study; expected {option}={expected}: a trial is trained as far as a tuner "
                "asks"
            )
        for name in hp.keys() - own.keys():
            self.order.batch_size = checks.whole(name, hp[name])

    def train(self) -> None:
        """Train a step further."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a step is not meant to get there
            if getattr(self.estimator, "warm_start", False):
                self._grow()
            else:
                self._go_through()
        self.fitted = True

    def _begin(self) -> None:
        name, estimator = type(self).__name__, getattr(self, "estimator", None)
        if not hasattr(estimator, "get_params") or isinstance(estimator, type):
            raise TrainerError(
                f"self.estimator of {name} is {estimator!r}; expected an estimator, made in build()"
            )
        data = getattr(self, "data", None)
        if not isinstance(data, tuple) or len(data) != 2:
            found = "not there" if data is None else f"of type {type(data).__name__}"
            raise TrainerError(f"self.data of {name} is {found}; expected (X, y), left in prepare()")
        checks.whole("rounds", self.rounds)
        if not getattr(estimator, "warm_start", False) and not hasattr(estimator, "partial_fit"):
            raise TrainerError(
                f"{type(estimator).__name__} cannot be trained in steps: it has no partial_fit, and no "
                "warm_start=True"
            )
        self.order = SampleOrder(
            len(data[1]), self.seed, shuffle=True, drop_last=False, batch_size=self.batch_size
        )
        self.fitted = False

    def _grow(self) -> None:
        estimator = self.estimator
        fitted = self.rounds * self.order.epoch
        self.order.epoch += 1
        if hasattr(estimator, "n_estimators"):
            estimator.set_params(n_estimators=fitted + self.rounds)
        elif isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
            estimator.set_params(max_iter=fitted + self.rounds)
        else:
            estimator.set_params(max_iter=self.rounds)
        estimator.fit(*self.data)

    def _go_through(self) -> None:
        X, y = self.data
        options = {"classes": np.unique(y)} if is_classifier(self.estimator) and not self.fitted else {}
        for key in self.order:
            self.estimator.partial_fit(
                _safe_indexing(X, key.indices), _safe_indexing(y, key.indices), **options
            )
            options = {}
        self.order.epoch += 1


def _stops(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield options by which an estimator would stop by itself, and what they should be."""
    known = estimator.get_params()
    if known.get("early_stopping", False) is not False:
        yield "early_stopping", False
    elif "early_stopping" not in known and known.get("n_iter_no_change") is not None:
        yield "n_iter_no_change", None
