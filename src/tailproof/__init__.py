"""Evaluate and learn policies from logged data whose rewards are heavy-tailed."""

from tailproof.aggregate import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
from tailproof.algorithms.bandit import IPS, BanditDR, Clip, Shrink
from tailproof.algorithms.dr import DR
from tailproof.algorithms.fitted_q import FQE, FQI
from tailproof.algorithms.linear import Absolute
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.mis import MIS
from tailproof.catalogue import method
from tailproof.diagnose import diagnose
from tailproof.diagnosis import Diagnosis
from tailproof.evaluate import evaluate, k_path
from tailproof.features import Joint, PerAction, Polynomial
from tailproof.log import Log
from tailproof.method import Method
from tailproof.partition import Bootstrap, Replicate, Split, Whole
from tailproof.results import Estimate
from tailproof.spaces import Continuous, Discrete

__all__ = [
    "DR",
    "FQE",
    "FQI",
    "IPS",
    "LSTD",
    "MIS",
    "Absolute",
    "BanditDR",
    "Bootstrap",
    "Clip",
    "Continuous",
    "Diagnosis",
    "Discrete",
    "Estimate",
    "Joint",
    "Log",
    "Mean",
    "MeanMinusStd",
    "Median",
    "Method",
    "PerAction",
    "Polynomial",
    "Quantile",
    "Replicate",
    "Shrink",
    "Split",
    "TrimmedMean",
    "Whole",
    "diagnose",
    "evaluate",
    "k_path",
    "method",
]
