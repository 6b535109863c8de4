"""Random generators: the shared ones, and those that a trainer keeps."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from exactness_trainers.base import Plain


class _Random(Plain):
    cause = "random generators"


class SharedPython(_Random):
    """Draws from random."""

    def amount(self) -> float:
        return random.random() + random.choice([1, 2, 3])


class SharedPythonGauss(_Random):
    """Draws one normal number a step, of which random makes two at once."""

    def amount(self) -> float:
        return random.gauss(0, 1)


class SharedNumpy(_Random):
    """Draws from numpy.random."""

    def amount(self) -> float:
        return np.random.rand() + np.random.permutation(5)[0]


class SharedNumpyNormal(_Random):
    """Draws one normal number a step, of which numpy.random makes two at once."""

    def amount(self) -> float:
        return np.random.normal()


class DrawnInBuild(_Random):
    """Starts from numbers that build draws."""

    def start(self) -> None:
        self.weights = np.random.rand(4) + random.random()

    def amount(self) -> float:
        self.weights = np.roll(self.weights, 1) * 1.1
        return float(self.weights[0])


class OwnPython(_Random):
    """A random.Random."""

    def start(self) -> None:
        self.random = random.Random(3)

    def amount(self) -> float:
        return self.random.gauss(0, 1)


class OwnPythonInObject(_Random):
    """One random.Random in two objects."""

    def start(self) -> None:
        generator = random.Random(3)
        self.one, self.other = {"random": generator}, [generator]

    def amount(self) -> float:
        return self.one["random"].random() - self.other[0].random()


class _Generator(_Random):
    def start(self) -> None:
        self.generator = np.random.Generator(self.bits())

    def bits(self) -> Any:
        raise NotImplementedError

    def amount(self) -> float:
        return float(self.generator.normal() + self.generator.integers(0, 2**16, dtype=np.uint16) / 2**16)


class GeneratorPCG64(_Generator):
    """numpy's default generator, which keeps half a number in store."""

    def bits(self) -> Any:
        return np.random.PCG64(3)


class GeneratorPhilox(_Generator):
    """A Generator over Philox, which keeps a buffer."""

    def bits(self) -> Any:
        return np.random.Philox(3)


class GeneratorMT(_Generator):
    """A Generator over MT19937."""

    def bits(self) -> Any:
        return np.random.MT19937(3)


class GeneratorSFC(_Generator):
    """A Generator over SFC64."""

    def bits(self) -> Any:
        return np.random.SFC64(3)


class OwnRandomState(_Random):
    """A RandomState, which keeps a normal number in store."""

    def start(self) -> None:
        self.generator = np.random.RandomState(3)

    def amount(self) -> float:
        return float(self.generator.normal())


class SharedBitGenerator(_Random):
    """Two Generators over the same bit generator."""

    def start(self) -> None:
        bits = np.random.PCG64(3)
        self.one, self.other = np.random.Generator(bits), np.random.Generator(bits)

    def amount(self) -> float:
        return float(self.one.random() - self.other.random())


class BitGeneratorOfOther(_Random):
    """The bit generator of a Generator, kept beside it."""

    def start(self) -> None:
        self.generator = np.random.default_rng(3)
        self.bits = self.generator.bit_generator

    def amount(self) -> float:
        return float(self.bits.random_raw() % 1000 / 1000 + self.generator.random())


class SpawningSeeds(_Random):
    """A SeedSequence, which counts the children that it spawned."""

    def start(self) -> None:
        self.seeds = np.random.SeedSequence(3)

    def amount(self) -> float:
        (child,) = self.seeds.spawn(1)
        return float(np.random.default_rng(child).random())


class SpawningGenerator(_Random):
    """A Generator that spawns another one in every step."""

    def start(self) -> None:
        self.generator = np.random.default_rng(3)

    def amount(self) -> float:
        self.generator = self.generator.spawn(2)[1]
        return float(self.generator.random())


class SharedInstanceKept(_Random):
    """The shared generator of numpy.random, kept on self."""

    expect = "either"
    named = "generator"

    def start(self) -> None:
        self.generator = np.random.mtrand._rand

    def amount(self) -> float:
        return float(self.generator.random_sample() + np.random.rand())


class SharedMethodKept(_Random):
    """A bound method of the shared generator of random, kept on self."""

    expect = "either"
    named = "draw"

    def start(self) -> None:
        self.draw = random.random

    def amount(self) -> float:
        return self.draw() - random.random()
