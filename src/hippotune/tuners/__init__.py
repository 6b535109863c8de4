"""Which trials to train how far: the algorithms, as coroutines over `Trials`."""

from hippotune.tuners.asha import ASHA
from hippotune.tuners.base import Child, Mode, Result, Trial, TrialGroup, Trials, Tuner
from hippotune.tuners.bohb import BOHB
from hippotune.tuners.early_stop import EarlyStop
from hippotune.tuners.grid_search import GridSearch
from hippotune.tuners.hyperband import Hyperband
from hippotune.tuners.hypersched import HyperSched
from hippotune.tuners.lazy import Lazy
from hippotune.tuners.median_stopping import MedianStopping
from hippotune.tuners.optuna_search import OptunaSearch
from hippotune.tuners.pasha import PASHA
from hippotune.tuners.pbt import PBT
from hippotune.tuners.random_search import RandomSearch
from hippotune.tuners.successive_halving import SuccessiveHalving
from hippotune.tuners.trial_list import TrialList

__all__ = [
    "ASHA",
    "BOHB",
    "PASHA",
    "PBT",
    "Child",
    "EarlyStop",
    "GridSearch",
    "HyperSched",
    "Hyperband",
    "Lazy",
    "MedianStopping",
    "Mode",
    "OptunaSearch",
    "RandomSearch",
    "Result",
    "SuccessiveHalving",
    "Trial",
    "TrialGroup",
    "TrialList",
    "Trials",
    "Tuner",
]
