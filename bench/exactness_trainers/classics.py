"""Learning without a library: optimizers, bandits, chains and populations in Python and NumPy."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness_trainers.base import Plain


class _Learner(Plain):
    cause = "learners in Python and NumPy"

    def train(self) -> None:
        raise NotImplementedError


def regression() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    x = generator.normal(size=(32, 4))
    return x, x @ generator.normal(size=4)


class NumpyAdam(_Learner):
    """Adam by hand, with moments and a step count in a dict."""

    def start(self) -> None:
        self.x, self.y = regression()
        self.weights = np.zeros(4)
        self.state: dict[str, Any] = {"m": np.zeros(4), "v": np.zeros(4), "t": 0}

    def train(self) -> None:
        gradient = self.x.T @ (self.x @ self.weights - self.y) / len(self.y)
        state = self.state
        state["t"] += 1
        state["m"] = 0.9 * state["m"] + 0.1 * gradient
        state["v"] = 0.99 * state["v"] + 0.01 * gradient**2
        m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.99 ** state["t"])
        self.weights -= self.lr * m / (np.sqrt(v) + 1e-8)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(np.mean((self.x @ self.weights - self.y) ** 2))}


class StochasticGradient(NumpyAdam):
    """Stochastic gradient descent over a permutation that is drawn anew when it is used up."""

    def start(self) -> None:
        super().start()
        self.order: list[int] = []

    def train(self) -> None:
        for _ in range(5):
            if not self.order:
                self.order = list(np.random.permutation(12))
            sample = self.x[self.order.pop()]
            at = len(self.order)
            self.weights -= self.lr * 0.1 * sample * (sample @ self.weights - self.y[at])


class EvolutionStrategy(_Learner):
    """A population that is drawn, ranked and bred."""

    def start(self) -> None:
        self.population = np.random.normal(size=(8, 3))
        self.generation = 0

    def train(self) -> None:
        scores = np.sum((self.population - 1) ** 2, axis=1)
        parents = self.population[np.argsort(scores)[:4]]
        self.generation += 1
        noise = np.random.normal(size=(4, 3)) * self.lr * (1 + self.generation)
        self.population = np.concatenate([parents, parents + noise])

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(np.mean(self.population**2))}


class MarkovChain(_Learner):
    """A Metropolis sampler that keeps its place, its acceptance rate and its samples."""

    def start(self) -> None:
        self.place, self.accepted, self.samples = 0.0, 0, [0.0]

    def train(self) -> None:
        for _ in range(5):
            proposed = self.place + random.gauss(0, 1 + 10 * self.lr)
            if random.random() < math.exp(min(0.0, (self.place**2 - proposed**2) / 2)):
                self.place, self.accepted = proposed, self.accepted + 1
            self.samples.append(self.place)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": sum(self.samples) / len(self.samples), "accepted": self.accepted}


class TabularQLearning(_Learner):
    """Q-learning on a line of places, with a table that makes its rows when they are visited."""

    def start(self) -> None:
        self.table: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.at, self.epsilon = 3, 0.9

    def train(self) -> None:
        for _ in range(20):
            row = self.table[self.at]
            move = random.randrange(2) if random.random() < self.epsilon else row.index(max(row))
            after = self.at + (1 if move else -1)
            target = 1.0 if after == 6 else 0.9 * max(self.table[after])
            row[move] += self.lr * (target - row[move])
            self.at = 3 if after in (0, 6) else after
        self.epsilon *= 0.9

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": sum(map(sum, self.table.values())), "places": len(self.table)}


class Bandit(_Learner):
    """A bandit with upper confidence bounds."""

    def start(self) -> None:
        self.pulls, self.means = [1] * 3, [0.5] * 3
        self.random = random.Random(4)

    def train(self) -> None:
        for _ in range(5):
            total = math.log(sum(self.pulls))
            bounds = [
                mean + 10 * self.lr * math.sqrt(total / pulls)
                for mean, pulls in zip(self.means, self.pulls, strict=True)
            ]
            arm = bounds.index(max(bounds))
            self.pulls[arm] += 1
            self.means[arm] += (self.random.random() * (arm + 1) - self.means[arm]) / self.pulls[arm]

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": sum(self.means), "pulls": self.pulls[2]}


class KMeans(_Learner):
    """k-means by mini-batches, with counts for every centre."""

    def start(self) -> None:
        self.x, _ = regression()
        self.centres, self.counts = self.x[:3].copy(), np.ones(3)

    def train(self) -> None:
        for sample in self.x[np.random.choice(32, 6, replace=False)]:
            nearest = int(np.argmin(((self.centres - sample) ** 2).sum(axis=1)))
            self.counts[nearest] += 1
            self.centres[nearest] += (1 + self.lr) * (sample - self.centres[nearest]) / self.counts[nearest]

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float((self.centres**2).sum())}


class SimulatedAnnealing(_Learner):
    """Annealing with a temperature, a best tour so far, and a cache of distances."""

    def start(self) -> None:
        self.tour = list(range(8))
        self.best, self.temperature = self.tour, 1.0
        self.cache: dict[tuple[int, int], float] = {}

    def length(self, tour: list[int]) -> float:
        legs = itertools.pairwise(tour)
        return sum(self.cache.setdefault(leg, abs(math.sin(leg[0] * 3 + leg[1]))) for leg in legs)

    def train(self) -> None:
        for _ in range(5):
            one, other = random.sample(range(8), 2)
            tour = list(self.tour)
            tour[one], tour[other] = tour[other], tour[one]
            worse = self.length(tour) - self.length(self.tour)
            if worse < 0 or random.random() < math.exp(-worse / self.temperature):
                self.tour = tour
            self.best = min(self.best, self.tour, key=self.length)
        self.temperature *= 1 - self.lr

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.length(self.tour) + self.temperature, "cached": len(self.cache)}
