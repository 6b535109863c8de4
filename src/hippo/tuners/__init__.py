"""Which trials to train how far: the algorithms, as coroutines over `Trials`."""

from hippo.tuners.asha import ASHA
from hippo.tuners.base import Mode, Result, Trial, TrialGroup, Trials, Tuner
from hippo.tuners.bohb import BOHB
from hippo.tuners.early_stop import EarlyStop
from hippo.tuners.grid_search import GridSearch
from hippo.tuners.hyperband import Hyperband
from hippo.tuners.hypersched import HyperSched
from hippo.tuners.median_stopping import MedianStopping
from hippo.tuners.optuna_search import OptunaSearch
from hippo.tuners.pasha import PASHA
from hippo.tuners.pbt import PBT
from hippo.tuners.random_search import RandomSearch
from hippo.tuners.successive_halving import SuccessiveHalving

__all__ = [
    "ASHA",
    "BOHB",
    "PASHA",
    "PBT",
    "EarlyStop",
    "GridSearch",
    "HyperSched",
    "Hyperband",
    "MedianStopping",
    "Mode",
    "OptunaSearch",
    "RandomSearch",
    "Result",
    "SuccessiveHalving",
    "Trial",
    "TrialGroup",
    "Trials",
    "Tuner",
]
