"""Evaluate and learn policies from logged data whose rewards are heavy-tailed."""

from tailproof.log import Log
from tailproof.spaces import Continuous, Discrete

__all__ = ["Continuous", "Discrete", "Log"]
