"""Evaluate and learn policies from logged data whose rewards are heavy-tailed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailproof.critics.custom import Custom
    from tailproof.critics.fitted_q import FQE, FQI
    from tailproof.critics.greedy import GreedyPolicy, SoftmaxPolicy
    from tailproof.critics.lstd import LSPI, LSTD
    from tailproof.critics.penalties import Absolute, PerObservation, Relative
    from tailproof.critics.rewards import ConstantRewards, HuberRewards
    from tailproof.doors.compare import Comparison, compare
    from tailproof.doors.diagnose import Diagnosis, diagnose
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.evaluate import evaluate, k_path
    from tailproof.doors.learn import learn
    from tailproof.doors.learned import Learned
    from tailproof.doors.plan import Plan, plan
    from tailproof.doors.returns import Returns, confidence_sequence, returns_under
    from tailproof.estimators.dr import DR
    from tailproof.estimators.importance import (
        IPS,
        BanditDR,
        Clip,
        EpisodeDR,
        EpisodeIS,
        ExponentialSmoothing,
        ImplicitExploration,
        LogSumExp,
        PowerMean,
        Shrink,
    )
    from tailproof.estimators.mis import MIS
    from tailproof.export.onnx import load as load_policy
    from tailproof.features import Joint, PerAction, Polynomial
    from tailproof.io import read_log
    from tailproof.learners.cloning import Cloning
    from tailproof.log.folds import Bootstrap, OutOfBag, Replicate, Split, Whole
    from tailproof.log.log import Log
    from tailproof.log.spaces import Continuous, Discrete
    from tailproof.methods.catalogue import method
    from tailproof.methods.method import Method
    from tailproof.policies.binding import Policy
    from tailproof.policies.forms import (
        Always,
        Column,
        EpsilonGreedy,
        Logged,
        Mixture,
        Uniform,
        on_frame,
    )
    from tailproof.profile.profile import LogProfile
    from tailproof.report.pages import write_report
    from tailproof.robust.aggregates import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
    from tailproof.worlds.rollout import rollout

__all__ = [
    "DR", "FQE", "FQI", "IPS", "LSPI", "LSTD", "MIS", "Absolute", "Always", "BanditDR", "Bootstrap",
    "Clip", "Cloning", "Column", "Comparison", "ConstantRewards", "Continuous", "Custom",
    "Diagnosis",
    "Discrete", "EpisodeDR", "EpisodeIS", "EpsilonGreedy", "Estimate", "ExponentialSmoothing",
    "GreedyPolicy", "HuberRewards", "ImplicitExploration", "Joint", "Learned", "Log", "LogProfile",
    "LogSumExp", "Logged", "Mean", "MeanMinusStd", "Median", "Method", "Mixture", "OutOfBag",
    "PerAction", "PerObservation", "Plan", "Policy", "Polynomial", "PowerMean", "Quantile", "Relative",
    "Replicate", "Returns",
    "Shrink", "SoftmaxPolicy", "Split", "TrimmedMean", "Uniform", "Whole", "compare",
    "confidence_sequence", "diagnose", "evaluate", "k_path", "learn", "load_policy", "method",
    "on_frame", "plan", "read_log",
    "returns_under", "rollout", "write_report",
]  # fmt: skip

_NAMES = {
    "critics.custom": "Custom",
    "critics.fitted_q": "FQE FQI",
    "critics.greedy": "GreedyPolicy SoftmaxPolicy",
    "critics.lstd": "LSPI LSTD",
    "critics.penalties": "Absolute PerObservation Relative",
    "critics.rewards": "ConstantRewards HuberRewards",
    "doors.compare": "Comparison compare",
    "doors.diagnose": "Diagnosis diagnose",
    "doors.estimate": "Estimate",
    "doors.evaluate": "evaluate k_path",
    "doors.learn": "learn",
    "doors.learned": "Learned",
    "doors.plan": "Plan plan",
    "doors.returns": "Returns confidence_sequence returns_under",
    "estimators.dr": "DR",
    "estimators.importance": (
        "BanditDR Clip EpisodeDR EpisodeIS ExponentialSmoothing IPS ImplicitExploration LogSumExp "
        "PowerMean Shrink"
    ),
    "estimators.mis": "MIS",
    "features": "Joint PerAction Polynomial",
    "io": "read_log",
    "learners.cloning": "Cloning",
    "log.folds": "Bootstrap OutOfBag Replicate Split Whole",
    "log.log": "Log",
    "log.spaces": "Continuous Discrete",
    "methods.catalogue": "method",
    "methods.method": "Method",
    "policies.binding": "Policy",
    "policies.forms": "Always Column EpsilonGreedy Logged Mixture Uniform on_frame",
    "profile.profile": "LogProfile",
    "report.pages": "write_report",
    "robust.aggregates": "Mean MeanMinusStd Median Quantile TrimmedMean",
    "worlds.rollout": "rollout",
}
#: The module that defines each public name; it is imported on first use.
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_HOMES["load_policy"] = "export.onnx:load"


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
