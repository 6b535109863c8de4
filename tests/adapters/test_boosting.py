"""XGBoost, LightGBM and scikit-learn: shared, killed and resumed, a trial is the library's own run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

import hippotune as hippo
from adapters import on_lightgbm, on_sklearn, on_xgboost
from adapters.common import SEED, STEPS, X, Y, bits, found_in, killed_with_its_process, tuned_through_a_kill
from adapters.on_lightgbm import LightGBM
from adapters.on_sklearn import Linear
from adapters.on_xgboost import ROUNDS, XGBoost
from hippotune import Config
from hippotune.adapters.boosting import BoostingTrainer, step_seed
from hippotune.adapters.lightgbm import begin_sampling as begin_sampling_of_lightgbm
from hippotune.adapters.xgboost import begin_sampling as begin_sampling_of_xgboost
from hippotune.errors import TrainerError
from trainers.samples import interrupted, uninterrupted

SPACES: dict[type[hippo.Trainer], dict[str, Any]] = {
    XGBoost: on_xgboost.SPACE,
    LightGBM: on_lightgbm.SPACE,
    Linear: on_sklearn.SPACE,
}


def by_xgboost(params: Mapping[str, Any], config: Config, rounds: int = ROUNDS) -> xgb.Booster:
    """Train as XGBoost does it, in one call; a callback puts the values and the seed of each step in."""

    class Step(xgb.callback.TrainingCallback):
        def before_iteration(self, model: xgb.Booster, epoch: int, evals_log: Any) -> bool:
            step, within = divmod(epoch, rounds)
            if not within:
                model.set_param(config.values(step))
                begin_sampling_of_xgboost(model, SEED)
            return False

    data = xgb.DMatrix(X[:200], Y[:200])
    return xgb.train({**params, "seed_per_iteration": True}, data, STEPS * rounds, callbacks=[Step()])


def by_lightgbm(params: Mapping[str, Any], config: Config, rounds: int = ROUNDS) -> lgb.Booster:
    """Train as LightGBM does it, in one call; a callback puts the values and the seed of each step in."""

    def step(env: Any) -> None:
        number, within = divmod(env.iteration, rounds)
        if not within:
            values = config.values(number)
            env.model.reset_parameter(values)
            begin_sampling_of_lightgbm(env.model, step_seed(SEED, env.iteration))

    step.before_iteration = True  # type: ignore[attr-defined]
    data = lgb.Dataset(X[:200], Y[:200], free_raw_data=False)
    every = {"verbosity": -1, **params}
    return lgb.train(every, data, STEPS * rounds, callbacks=[step], keep_training_booster=True)


def by_sklearn(config: Config) -> SGDClassifier:
    """Train as a user of scikit-learn does it: epochs of batches, in Hippo's order."""
    x, y = X[:200], Y[:200]
    estimator = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1)
    np.random.seed(SEED)
    for step in range(STEPS):
        values = config.values(step)
        estimator.set_params(eta0=values["eta0"])
        order = np.random.RandomState([SEED, 0, step]).permutation(200)
        for start in range(0, 200, values["bs"]):
            rows = order[start : start + values["bs"]]
            estimator.partial_fit(x[rows], y[rows], classes=[0, 1])
    return estimator


def alone_with(trainer: type[hippo.Trainer], config: Config) -> float:
    if trainer is XGBoost:
        return bits(by_xgboost(XGBoost.params, config).predict(xgb.DMatrix(X[200:])))
    if trainer is LightGBM:
        return bits(by_lightgbm(LightGBM.params, config).predict(X[200:], raw_score=True))
    return bits(by_sklearn(config).coef_)


@pytest.mark.parametrize("trainer", SPACES)
def test_a_study_through_a_kill_has_the_bits_of_the_library_alone(
    trainer: type[hippo.Trainer], tmp_path: Path
) -> None:
    if trainer is Linear:
        killed_with_its_process(trainer, tmp_path)
    study, report = tuned_through_a_kill(trainer, SPACES[trainer], tmp_path)
    study.close()
    found = found_in(report)
    assert found == {config: alone_with(trainer, config) for config in found}
    assert len(set(found.values())) == 8


# What goes on where: in one session after the other.


class Plain(BoostingTrainer):
    """For trainers that are not to be killed."""

    def train(self) -> None:
        BoostingTrainer.train(self)


CUTS = ["nothing", "move", "return", "evaluate", "again", "nothing"]


@pytest.mark.parametrize(
    "params",
    [
        {"subsample": 0.6},
        {"colsample_bytree": 0.5, "colsample_bylevel": 0.5, "grow_policy": "lossguide", "max_leaves": 6},
        {"tree_method": "exact", "colsample_bytree": 0.5, "subsample": 0.5},
        {"tree_method": "approx", "colsample_bytree": 0.5, "subsample": 0.5},
        {"booster": "dart", "rate_drop": 0.3, "subsample": 0.5},
        {"booster": "gblinear"},
        {"num_parallel_tree": 2, "subsample": 0.5, "colsample_bynode": 0.5},
    ],
)
def test_every_way_of_sampling_of_xgboost_is_exact(params: dict[str, Any]) -> None:
    class Sampled(Plain, XGBoost):
        pass

    Sampled.params = {"objective": "binary:logistic", **params}
    config = Config({"eta": hippo.Exponential(0.3, 0.9)})
    alone = uninterrupted(Sampled, config, len(CUTS))
    assert interrupted(Sampled, config, CUTS).agrees_with(alone)


@pytest.mark.parametrize(
    "params",
    [
        {"feature_fraction": 0.5, "bagging_freq": 1, "bagging_fraction": 0.6},
        {"feature_fraction_bynode": 0.5, "bagging_freq": 2, "bagging_fraction": 0.3},
        {"extra_trees": True, "bagging_freq": 1, "pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.7},
        {"objective": "multiclass", "num_class": 2, "bagging_freq": 1, "subsample": 0.5},
        {"objective": "l1"},
    ],
)
def test_every_way_of_sampling_of_lightgbm_is_exact(params: dict[str, Any]) -> None:
    class Sampled(Plain, LightGBM):
        pass

    Sampled.params = {"objective": "binary", "num_leaves": 5, **params}
    config = Config({"learning_rate": hippo.Exponential(0.3, 0.9)})
    alone = uninterrupted(Sampled, config, len(CUTS))
    assert interrupted(Sampled, config, CUTS).agrees_with(alone)


def test_bagging_can_begin_in_the_middle_of_a_trial() -> None:
    class Later(Plain, LightGBM):
        pass

    config = Config({"bagging_fraction": hippo.Piecewise([1.0, 0.5, 1.0, 0.7], [1, 3, 4])})
    events = ["nothing", "move", "again", "evaluate", "again", "nothing"]
    alone = uninterrupted(Later, config, len(events))
    assert interrupted(Later, config, events).agrees_with(alone)


@pytest.mark.parametrize(
    ("estimator", "length"),
    [
        (RandomForestClassifier(warm_start=True, random_state=1), "n_estimators"),
        (GradientBoostingClassifier(warm_start=True, subsample=0.5, random_state=1), "n_estimators"),
        (BaggingClassifier(warm_start=True, random_state=1), "n_estimators"),
        (
            HistGradientBoostingClassifier(
                warm_start=True, max_features=0.5, early_stopping=False, random_state=1
            ),
            "max_iter",
        ),
    ],
)
def test_an_estimator_with_warm_start_is_what_one_fit_makes_of_it(
    estimator: BaseEstimator, length: str
) -> None:
    class Grown(Linear):
        rounds = 3

        def build(self) -> None:
            self.estimator = clone(estimator)

        def train(self) -> None:
            hippo.adapters.SklearnTrainer.train(self)

        def evaluate(self) -> Mapping[str, float]:
            return {"bits": bits(self.estimator.predict_proba(X))} if self.fitted else {"bits": 0}

    course = interrupted(Grown, Config({"verbose": 0}), ["evaluate", "move", "return", "evaluate"])
    whole = clone(estimator).set_params(**{length: 12}).fit(X[:200], Y[:200])
    assert course.metrics[4] == {"bits": bits(whole.predict_proba(X))}


@pytest.mark.parametrize(
    "estimator",
    [
        GradientBoostingClassifier(warm_start=True, subsample=0.5),
        SGDClassifier(warm_start=True),
        MLPClassifier((3,), warm_start=True),
        MLPClassifier((3,)),
    ],
)
def test_an_estimator_may_draw_from_the_shared_generator(estimator: BaseEstimator) -> None:
    class Drawing(Linear):
        def build(self) -> None:
            self.estimator = clone(estimator)

        def train(self) -> None:
            hippo.adapters.SklearnTrainer.train(self)

        def evaluate(self) -> Mapping[str, float]:
            return {"bits": bits(self.estimator.predict(X)) if self.fitted else 0}

    config = Config({"verbose": 0})
    alone = uninterrupted(Drawing, config, len(CUTS))
    assert interrupted(Drawing, config, CUTS).agrees_with(alone)


# What cannot hold.


@pytest.mark.parametrize(
    ("trainer", "params", "message"),
    [
        (XGBoost, {"seed": 4}, r"seed=4.*Study\(seed"),
        (XGBoost, {"random_state": 4}, r"random_state=4.*Study\(seed"),
        (XGBoost, {"num_boost_round": 4}, "num_boost_round=4.*a tuner asks"),
        (XGBoost, {"early_stopping_rounds": 4}, "early_stopping_rounds.*MedianStopping"),
        (XGBoost, {"updater": "grow_histmaker"}, "updater.*tree_method"),
        (LightGBM, {"boosting": "dart"}, "boosting='dart'.*plain boosting"),
        (LightGBM, {"data_sample_strategy": "goss"}, "goss.*no checkpoint reaches"),
        (LightGBM, {"cegb_penalty_feature_coupled": "5,5"}, "cegb_penalty_feature_coupled.*no checkpoint"),
        (LightGBM, {"cegb_penalty_feature_lazy": "5,5"}, "cegb_penalty_feature_lazy.*no checkpoint"),
        (LightGBM, {"boost": "dart"}, "boost='dart'.*plain boosting"),
        (LightGBM, {"n_estimators": 4}, "n_estimators=4.*a tuner asks"),
        (LightGBM, {"bagging_seed": 4}, r"bagging_seed=4.*Study\(seed"),
    ],
)
def test_a_setting_that_cannot_hold_is_named(
    trainer: type[BoostingTrainer], params: dict[str, Any], message: str
) -> None:
    class Wrong(trainer):  # type: ignore[misc, valid-type]
        pass

    Wrong.params = params
    with pytest.raises(TrainerError, match=message):
        uninterrupted(Wrong, Config({"x": 1}), 1)
    Wrong.params = {}
    with pytest.raises(TrainerError, match=message):
        uninterrupted(Wrong, Config(params), 1)


@pytest.mark.parametrize(
    ("trainer", "params", "hp", "message"),
    [
        (XGBoost, {}, {"etta": 0.1}, "XGBoost does not use 'etta'"),
        (XGBoost, {"verbosity": 0}, {"etta": 0.1}, "XGBoost does not use 'etta'"),
        (XGBoost, {"etta": 0.1}, {"eta": 0.1}, "XGBoost does not use 'etta'"),
        (XGBoost, {"booster": "gblinear"}, {"max_depth": 3}, "XGBoost does not use 'max_depth'"),
        (
            XGBoost,
            {"learning_rate": 0.3},
            {"eta": 0.1},
            "'learning_rate' and 'eta' are one parameter of XGBoost",
        ),
        (XGBoost, {}, {"lambda": 1, "reg_lambda": 2}, "'lambda' and 'reg_lambda' are one"),
        (LightGBM, {}, {"learning_ratee": 0.1}, "LightGBM does not use 'learning_ratee'"),
        (
            LightGBM,
            {"learning_rate": 0.3},
            {"eta": 0.1},
            "'learning_rate' and 'eta' are one parameter of LightGBM",
        ),
        (
            LightGBM,
            {},
            {"subsample": 0.3, "bagging_fraction": 0.1},
            "'bagging_fraction' and 'subsample' are one",
        ),
    ],
)
def test_a_parameter_without_an_effect_is_named_before_a_round_is_trained(
    trainer: type[BoostingTrainer], params: dict[str, Any], hp: dict[str, Any], message: str
) -> None:
    class Wrong(trainer):  # type: ignore[misc, valid-type]
        def boost(self) -> None:
            raise AssertionError("a round was trained")

    Wrong.params = params
    with pytest.raises(TrainerError, match=message):
        uninterrupted(Wrong, Config(hp), 1)


def test_a_hyper_parameter_may_stand_in_params_under_the_same_name() -> None:
    class Both(Plain, XGBoost):
        pass

    Both.params = {"eta": 0.3, "eval_metric": ["logloss", "auc"], "disable_default_eval_metric": 0}
    uninterrupted(Both, Config({"eta": 0.1}), 1)


def test_lightgbm_may_be_told_what_it_does_anyway() -> None:
    LightGBM().check({"boosting": "gbdt", "linear_tree": False}, "params")


def test_positions_of_lightgbm_are_refused() -> None:
    class Ranked(LightGBM):
        def prepare(self) -> None:
            rows = {"group": [100, 100], "position": np.tile(np.arange(10), 20)}
            self.data = lgb.Dataset(X[:200], Y[:200], free_raw_data=False, **rows)

    Ranked.params = {"objective": "lambdarank"}
    with pytest.raises(TrainerError, match=r"has positions.*no checkpoint reaches"):
        uninterrupted(Ranked, Config({"learning_rate": 0.1}), 1)


def test_a_step_is_a_multiple_of_bagging_freq() -> None:
    with pytest.raises(TrainerError, match=r"bagging_freq is 3, and a step has 2 rounds"):
        uninterrupted(LightGBM, Config({"bagging_freq": 3}), 1)


@pytest.mark.parametrize(
    ("estimator", "hp", "message"),
    [
        (LinearRegression(), {"fit_intercept": True}, "no partial_fit"),
        (MLPClassifier(early_stopping=True), {"alpha": 1}, "early_stopping=True.*a tuner asks"),
        (MLPClassifier(), {"early_stopping": True}, "early_stopping=True.*a tuner asks"),
        (HistGradientBoostingClassifier(warm_start=True), {"l2_regularization": 1}, "early_stopping='auto'"),
        (
            GradientBoostingClassifier(warm_start=True, n_iter_no_change=3),
            {"ccp_alpha": 0.0},
            "n_iter_no_change=3",
        ),
        (SGDClassifier(), {"depth": 3}, "'depth' cannot be set.*no parameter of it"),
        (RandomForestClassifier(warm_start=True), {"n_estimators": 3}, "follows from the steps"),
        (None, {"alpha": 1}, r"expected an estimator, made in build\(\)"),
    ],
)
def test_an_estimator_that_cannot_be_trained_in_steps_is_an_error(
    estimator: BaseEstimator, hp: dict[str, Any], message: str
) -> None:
    class Wrong(Linear):
        def build(self) -> None:
            self.estimator = estimator

    with pytest.raises(TrainerError, match=message):
        uninterrupted(Wrong, Config(hp), 1)
