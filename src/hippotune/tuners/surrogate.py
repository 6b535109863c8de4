"""A model of scores over features: a Gaussian process of scikit-learn, over the ranks of scores.

Scores are ranked, and the ranks made normal: a trial that has diverged is the worst, and not by how much. A
feature's length scale is fitted where the scores say something of it, and stays near what suits the number
of features where they do not (Hvarfner et al., 2024): a few dozen scores do not settle twenty length scales.
The kernel is fitted again when there are 5 % more scores than at its last fit: at first, with each new score.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hippotune.errors import MissingExtra
from hippotune.tuners.features import Numbers

_MORE = 1.05


class Surrogate:
    """Learns scores, of which more is better, and says by how much others are expected to be better."""

    def __init__(self) -> None:
        self._kernel: Any = None
        self._fitted_at = 0
        import_gaussian_process()

    def expected_improvement(self, known: Numbers, scores: Sequence[float], others: Numbers) -> Numbers:
        """Return, for each of the others, the improvement that is expected over the best of the known."""
        from scipy.stats import norm  # type: ignore[import-untyped, unused-ignore]

        targets = _normal(scores)
        mean, spread = self._predicted(known, targets, others)
        z = (mean - targets.max()) / spread
        improvement: Numbers = spread * (z * norm.cdf(z) + norm.pdf(z))
        return improvement

    def expected(self, known: Numbers, scores: Sequence[float]) -> Numbers:
        """Return what is expected of the known without the luck that each had, to be compared."""
        return self._predicted(known, _normal(scores), known)[0]

    def _predicted(self, known: Numbers, targets: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bounds that are reached, which is no news to the user
            mean, spread = self._fitted(known, targets).predict(others, return_std=True)
        return mean, np.maximum(spread, 1e-9)

    def _fitted(self, known: Numbers, targets: Numbers) -> Any:
        gaussian_process = import_gaussian_process()
        kernels = gaussian_process.kernels
        size = known.shape[1]
        is_due = len(known) >= self._fitted_at * _MORE
        if self._kernel is None:
            scales = kernels.Matern(np.full(size, size**0.5), (0.5, 100.0), nu=2.5)
            self._kernel = kernels.ConstantKernel(1.0, (0.1, 10.0)) * scales + kernels.WhiteKernel(
                0.05, (1e-3, 0.5)
            )
        model = gaussian_process.GaussianProcessRegressor(
            self._kernel, optimizer=_likeliest if is_due else None, normalize_y=True
        ).fit(known, targets)
        if is_due:
            self._kernel, self._fitted_at = model.kernel_, len(known)
        return model


def _normal(scores: Sequence[float]) -> Numbers:
    from scipy.stats import norm, rankdata

    targets: Numbers = norm.ppf((rankdata(scores) - 0.5) / len(scores))
    return targets


def _likeliest(
    objective: Callable[[Numbers], tuple[float, Numbers]], start: Numbers, bounds: Numbers
) -> tuple[Numbers, float]:
    """Return the kernel's parameters that are likeliest: length scales are log-normal around √features."""
    from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]

    def with_prior(theta: Numbers) -> tuple[float, Numbers]:
        value, slope = objective(theta)
        apart = np.zeros_like(theta)
        apart[1:-1] = theta[1:-1] - 0.5 * np.log(len(theta) - 2)  # all but the amplitude and the noise
        return value + 0.5 * float(apart @ apart), slope + apart

    found = minimize(with_prior, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return found.x, found.fun


def import_gaussian_process() -> Any:
    """Import scikit-learn, which is an extra."""
    try:
        import sklearn.gaussian_process as gaussian_process
    except ImportError:
        raise MissingExtra("hippo.Lazy needs scikit-learn: pip install 'hippotune[sklearn]'") from None
    return gaussian_process
