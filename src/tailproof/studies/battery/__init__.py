"""A benchmark for heavy tails: any estimator or learner on worlds with known true values."""

from tailproof.studies.battery.cells import Cell, Problem, Setting
from tailproof.studies.battery.entrants import Reply, default_entrants
from tailproof.studies.battery.run import Battery, Findings, run
from tailproof.studies.battery.score import Leaderboard, leaderboard

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
