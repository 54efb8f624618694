"""Evaluate and learn policies from logged data whose rewards are heavy-tailed."""

from typing import Any

from tailproof.aggregate import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
from tailproof.algorithms.bandit import IPS, BanditDR
from tailproof.algorithms.cloning import Cloning
from tailproof.algorithms.dr import DR
from tailproof.algorithms.fitted_q import FQE, FQI
from tailproof.algorithms.importance import EpisodeDR, EpisodeIS
from tailproof.algorithms.linear import Absolute
from tailproof.algorithms.lspi import LSPI
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.mis import MIS
from tailproof.algorithms.rewards import ConstantRewards, HuberRewards
from tailproof.algorithms.weighting import (
    Clip,
    ExponentialSmoothing,
    ImplicitExploration,
    LogSumExp,
    PowerMean,
    Shrink,
)
from tailproof.catalogue import method
from tailproof.compare import compare
from tailproof.comparison import Comparison
from tailproof.diagnose import diagnose
from tailproof.diagnosis import Diagnosis
from tailproof.evaluate import evaluate, k_path
from tailproof.features import Joint, PerAction, Polynomial
from tailproof.greedy import GreedyPolicy, SoftmaxPolicy
from tailproof.learn import learn
from tailproof.learned import Learned
from tailproof.log import Log
from tailproof.method import Method
from tailproof.partition import Bootstrap, OutOfBag, Replicate, Split, Whole
from tailproof.policies import EpsilonGreedy
from tailproof.results import Estimate
from tailproof.saving import load as load_policy
from tailproof.spaces import Continuous, Discrete
from tailproof.worlds.rollout import rollout

__all__ = [
    "DR",
    "FQE",
    "FQI",
    "IPS",
    "LSPI",
    "LSTD",
    "MIS",
    "Absolute",
    "BanditDR",
    "Bootstrap",
    "Clip",
    "Cloning",
    "Comparison",
    "ConstantRewards",
    "Continuous",
    "Diagnosis",
    "Discrete",
    "EpisodeDR",
    "EpisodeIS",
    "EpsilonGreedy",
    "Estimate",
    "ExponentialSmoothing",
    "GreedyPolicy",
    "HuberRewards",
    "ImplicitExploration",
    "Joint",
    "Learned",
    "Log",
    "LogSumExp",
    "Mean",
    "MeanMinusStd",
    "Median",
    "Method",
    "OutOfBag",
    "PerAction",
    "Polynomial",
    "PowerMean",
    "Quantile",
    "Replicate",
    "Shrink",
    "SoftmaxPolicy",
    "Split",
    "TrimmedMean",
    "Whole",
    "compare",
    "diagnose",
    "evaluate",
    "k_path",
    "learn",
    "load_policy",
    "method",
    "read_log",
    "rollout",
]


def __getattr__(name: str) -> Any:
    """Load the readers only when they are asked for, because they bring pyarrow."""
    if name == "read_log":
        from tailproof.sources import read_log

        return read_log
    raise AttributeError(f"module 'tailproof' has no attribute {name!r}")
