"""A battery for heavy tails: any estimator or learner on worlds whose truth is known."""

from tailproof.battery.cells import Cell, Problem, Setting
from tailproof.battery.entrants import Reading, default_entrants
from tailproof.battery.run import Battery, Findings, run
from tailproof.battery.score import Leaderboard, leaderboard

__all__ = [
    "Battery",
    "Cell",
    "Findings",
    "Leaderboard",
    "Problem",
    "Reading",
    "Setting",
    "default_entrants",
    "leaderboard",
    "run",
]
