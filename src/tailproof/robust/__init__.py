"""Robust means, intervals, gains and tails: functions of samples, without logs or policies."""
