"""Estimators of scikit-learn that are fitted step by step, without a word about saving."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from exactness_trainers.base import Plain


class _Estimator(Plain):
    cause = "scikit-learn"

    def build(self) -> None:
        generator = np.random.default_rng(5)
        self.x = generator.normal(size=(32, 4))
        self.y = (self.x[:, 0] + 0.3 * generator.normal(size=32) > 0).astype(int)
        self.step = 0
        self.estimator: Any = self.made()

    def made(self) -> Any:
        raise NotImplementedError

    def batch(self) -> slice:
        self.step += 1
        return slice(4 * self.step, 4 * self.step + 8)

    def train(self) -> None:
        part = self.batch()
        self.estimator.partial_fit(self.x[part], self.y[part], classes=[0, 1])

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(self.score()) if self.step else 0.0}

    def score(self) -> Any:
        return self.estimator.decision_function(self.x).sum()


class GradientClassifier(_Estimator):
    """SGDClassifier with a seed from numpy.random; the learning rate is a hyper-parameter."""

    def made(self) -> Any:
        return SGDClassifier(learning_rate="constant", eta0=0.1, average=True)

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.estimator.set_params(eta0=hp["lr"])


class GradientRegressor(_Estimator):
    """SGDRegressor with a decay of its own, after a scaler that is fitted along."""

    def made(self) -> Any:
        self.scaler = StandardScaler()
        return SGDRegressor(learning_rate="invscaling", random_state=np.random.RandomState(1))

    def train(self) -> None:
        part = self.batch()
        x = self.scaler.partial_fit(self.x[part]).transform(self.x[part])
        self.estimator.eta0 = self.lr
        self.estimator.partial_fit(x, self.y[part])

    def score(self) -> Any:
        return self.estimator.predict(self.scaler.transform(self.x)).sum()


class PerceptronPartial(_Estimator):
    """A Perceptron."""

    def made(self) -> Any:
        return Perceptron(eta0=1.0)

    def train(self) -> None:
        self.estimator.set_params(eta0=self.lr)
        super().train()


class NaiveBayes(_Estimator):
    """GaussianNB, whose variances grow with what it has seen; weighted by the learning rate."""

    def made(self) -> Any:
        return GaussianNB()

    def train(self) -> None:
        part = self.batch()
        weights = np.full(len(self.y[part]), self.lr)
        self.estimator.partial_fit(self.x[part], self.y[part], classes=[0, 1], sample_weight=weights)

    def score(self) -> Any:
        return self.estimator.predict_proba(self.x)[:, 0].sum()


class NetworkPartial(_Estimator):
    """MLPClassifier by partial_fit, with an Adam and a random state of its own inside."""

    def made(self) -> Any:
        return MLPClassifier(hidden_layer_sizes=(3,), random_state=1, batch_size=4)

    def train(self) -> None:
        super().train()
        self.estimator._optimizer.learning_rate_init = self.lr

    def score(self) -> Any:
        return self.estimator.predict_proba(self.x)[:, 0].sum()


class NetworkWarmStart(_Estimator):
    """MLPRegressor by fit with warm_start, whose random state is an object that goes on."""

    def made(self) -> Any:
        state = np.random.RandomState(1)
        return MLPRegressor(
            hidden_layer_sizes=(3,), max_iter=2, warm_start=True, solver="sgd", random_state=state
        )

    def train(self) -> None:
        self.estimator.learning_rate_init = self.lr
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.estimator.fit(self.x, self.y)

    def score(self) -> Any:
        return self.estimator.predict(self.x).sum()


class MiniBatchMeans(_Estimator):
    """MiniBatchKMeans, which counts what every centre has seen."""

    def made(self) -> Any:
        return MiniBatchKMeans(3, random_state=np.random.RandomState(1), n_init=1)

    def train(self) -> None:
        self.estimator.partial_fit(self.x[self.batch()] * (1 + self.lr))

    def score(self) -> Any:
        return self.estimator.cluster_centers_.sum()


class GrowingForest(_Estimator):
    """A random forest with warm_start that gets a tree in every step."""

    def made(self) -> Any:
        return RandomForestRegressor(0, warm_start=True, random_state=1, max_depth=2, max_features=2)

    def train(self) -> None:
        self.estimator.n_estimators += 1
        self.estimator.fit(self.x, self.y * (1 + self.lr))

    def score(self) -> Any:
        return self.estimator.predict(self.x).sum()


class PrincipalComponents(_Estimator):
    """IncrementalPCA, which keeps means and variances of all that it saw."""

    def made(self) -> Any:
        return IncrementalPCA(2)

    def train(self) -> None:
        self.estimator.partial_fit(self.x[self.batch()] * (1 + self.lr))

    def score(self) -> Any:
        return np.abs(self.estimator.components_).sum() + self.estimator.mean_.sum()


class Boosting(_Estimator):
    """Gradient boosting by hand: a list of trees, and what they leave over."""

    def made(self) -> Any:
        self.rest = self.y.astype(float)
        return []

    def train(self) -> None:
        tree = DecisionTreeRegressor(max_depth=2, max_features=2).fit(self.x, self.rest)
        self.rest -= self.lr * tree.predict(self.x)
        self.estimator.append((self.lr, tree))

    def score(self) -> Any:
        return sum(rate * tree.predict(self.x).sum() for rate, tree in self.estimator)
