"""Robust means, intervals and tails: functions of samples, without logs or policies."""
