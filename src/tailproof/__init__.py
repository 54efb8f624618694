"""Evaluate and learn policies from logged data whose rewards are heavy-tailed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailproof.algorithms.bandit import IPS, BanditDR
    from tailproof.algorithms.dr import DR
    from tailproof.algorithms.fitted_q import FQE, FQI
    from tailproof.algorithms.importance import EpisodeDR, EpisodeIS
    from tailproof.algorithms.learners.cloning import Cloning
    from tailproof.algorithms.linear.statistics import Absolute
    from tailproof.algorithms.lstd import LSPI, LSTD
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
    from tailproof.comparison.compare import compare
    from tailproof.comparison.comparison import Comparison
    from tailproof.data.log import Log
    from tailproof.data.partition import Bootstrap, OutOfBag, Replicate, Split, Whole
    from tailproof.data.spaces import Continuous, Discrete
    from tailproof.data.view import LogView
    from tailproof.diagnosis.diagnose import diagnose
    from tailproof.diagnosis.diagnosis import Diagnosis
    from tailproof.ensemble.aggregate import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
    from tailproof.evaluation.estimate import Estimate
    from tailproof.evaluation.evaluate import evaluate, k_path
    from tailproof.evaluation.looks import confidence_sequence
    from tailproof.evaluation.returns import Returns, returns_under
    from tailproof.export.load import load as load_policy
    from tailproof.features import Joint, PerAction, Polynomial
    from tailproof.learning.learn import learn
    from tailproof.learning.learned import Learned
    from tailproof.methods.catalogue import method
    from tailproof.methods.method import Method
    from tailproof.policies.by_row import Column, Logged
    from tailproof.policies.greedy import GreedyPolicy, SoftmaxPolicy
    from tailproof.policies.naming import Policy
    from tailproof.policies.rules import on_frame
    from tailproof.policies.simple import Always, EpsilonGreedy, Mixture, Uniform
    from tailproof.report.writing import write_report
    from tailproof.sources import read_log
    from tailproof.worlds.rollout import rollout

__all__ = [
    "DR", "FQE", "FQI", "IPS", "LSPI", "LSTD", "MIS", "Absolute", "Always", "BanditDR", "Bootstrap",
    "Clip", "Cloning", "Column", "Comparison", "ConstantRewards", "Continuous", "Diagnosis",
    "Discrete", "EpisodeDR", "EpisodeIS", "EpsilonGreedy", "Estimate", "ExponentialSmoothing",
    "GreedyPolicy", "HuberRewards", "ImplicitExploration", "Joint", "Learned", "Log", "LogSumExp",
    "LogView", "Logged", "Mean", "MeanMinusStd", "Median", "Method", "Mixture", "OutOfBag",
    "PerAction", "Policy", "Polynomial", "PowerMean", "Quantile", "Replicate", "Returns", "Shrink",
    "SoftmaxPolicy", "Split", "TrimmedMean", "Uniform", "Whole", "compare", "confidence_sequence",
    "diagnose", "evaluate", "k_path", "learn", "load_policy", "method", "on_frame", "read_log",
    "returns_under", "rollout", "write_report",
]  # fmt: skip

_NAMES = {
    "algorithms.bandit": "BanditDR IPS",
    "algorithms.dr": "DR",
    "algorithms.fitted_q": "FQE FQI",
    "algorithms.importance": "EpisodeDR EpisodeIS",
    "algorithms.learners.cloning": "Cloning",
    "algorithms.linear.statistics": "Absolute",
    "algorithms.lstd": "LSPI LSTD",
    "algorithms.mis": "MIS",
    "algorithms.rewards": "ConstantRewards HuberRewards",
    "algorithms.weighting": "Clip ExponentialSmoothing ImplicitExploration LogSumExp PowerMean Shrink",
    "comparison.compare": "compare",
    "comparison.comparison": "Comparison",
    "data.log": "Log",
    "data.partition": "Bootstrap OutOfBag Replicate Split Whole",
    "data.spaces": "Continuous Discrete",
    "data.view": "LogView",
    "diagnosis.diagnose": "diagnose",
    "diagnosis.diagnosis": "Diagnosis",
    "ensemble.aggregate": "Mean MeanMinusStd Median Quantile TrimmedMean",
    "evaluation.estimate": "Estimate",
    "evaluation.evaluate": "evaluate k_path",
    "evaluation.looks": "confidence_sequence",
    "evaluation.returns": "Returns returns_under",
    "features": "Joint PerAction Polynomial",
    "learning.learn": "learn",
    "learning.learned": "Learned",
    "methods.catalogue": "method",
    "methods.method": "Method",
    "policies.by_row": "Column Logged",
    "policies.greedy": "GreedyPolicy SoftmaxPolicy",
    "policies.naming": "Policy",
    "policies.rules": "on_frame",
    "policies.simple": "Always EpsilonGreedy Mixture Uniform",
    "report.writing": "write_report",
    "sources": "read_log",
    "worlds.rollout": "rollout",
}
#: The module that defines each public name; it is imported on first use.
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_HOMES["load_policy"] = "export.load:load"


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use: ``import tailproof`` stays fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tailproof")
    if name not in _HOMES:
        raise AttributeError(f"module 'tailproof' has no attribute {name!r}")
    home, _, called = _HOMES[name].partition(":")
    value = getattr(import_module(f"tailproof.{home}"), called or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
