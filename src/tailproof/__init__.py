"""Evaluate and learn policies from logged data whose rewards are heavy-tailed."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from tailproof.sources import read_log
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

#: Where each name comes from; it is loaded when it is first asked for.
_HOMES = {
    "Absolute": "algorithms.linear",
    "BanditDR": "algorithms.bandit",
    "Bootstrap": "partition",
    "Clip": "algorithms.weighting",
    "Cloning": "algorithms.cloning",
    "Comparison": "comparison",
    "ConstantRewards": "algorithms.rewards",
    "Continuous": "spaces",
    "DR": "algorithms.dr",
    "Diagnosis": "diagnosis",
    "Discrete": "spaces",
    "EpisodeDR": "algorithms.importance",
    "EpisodeIS": "algorithms.importance",
    "EpsilonGreedy": "policies",
    "Estimate": "results",
    "ExponentialSmoothing": "algorithms.weighting",
    "FQE": "algorithms.fitted_q",
    "FQI": "algorithms.fitted_q",
    "GreedyPolicy": "greedy",
    "HuberRewards": "algorithms.rewards",
    "IPS": "algorithms.bandit",
    "ImplicitExploration": "algorithms.weighting",
    "Joint": "features",
    "LSPI": "algorithms.lspi",
    "LSTD": "algorithms.lstd",
    "Learned": "learned",
    "Log": "log",
    "LogSumExp": "algorithms.weighting",
    "MIS": "algorithms.mis",
    "Mean": "aggregate",
    "MeanMinusStd": "aggregate",
    "Median": "aggregate",
    "Method": "method",
    "OutOfBag": "partition",
    "PerAction": "features",
    "Polynomial": "features",
    "PowerMean": "algorithms.weighting",
    "Quantile": "aggregate",
    "Replicate": "partition",
    "Shrink": "algorithms.weighting",
    "SoftmaxPolicy": "greedy",
    "Split": "partition",
    "TrimmedMean": "aggregate",
    "Whole": "partition",
    "compare": "compare",
    "diagnose": "diagnose",
    "evaluate": "evaluate",
    "k_path": "evaluate",
    "learn": "learn",
    "load_policy": "saving:load",
    "method": "catalogue",
    "read_log": "sources",
    "rollout": "worlds.rollout",
}


class _Package(ModuleType):
    """The package: what it exports is never hidden by a module of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Python binds every module that is loaded to its package: evaluate.py, where `evaluate` is due.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    """Load what is asked for, and nothing else: a log needs no critics, and an interrupt is heard."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tailproof' has no attribute {name!r}")
    home, _, called = _HOMES[name].partition(":")
    value = getattr(import_module(f"tailproof.{home}"), called or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
