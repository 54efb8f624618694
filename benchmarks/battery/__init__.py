"""A benchmark for heavy tails: any estimator or learner on worlds with known true values."""

from benchmarks.battery.cells import Cell, Problem, Setting
from benchmarks.battery.entrants import Reply, default_entrants
from benchmarks.battery.run import Battery, Findings, run
from benchmarks.battery.score import Leaderboard, leaderboard

__all__ = [
    "Battery",
    "Cell",
    "Findings",
    "Leaderboard",
    "Problem",
    "Reply",
    "Setting",
    "default_entrants",
    "leaderboard",
    "run",
]
