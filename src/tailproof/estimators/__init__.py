"""Estimators of a policy's value: importance sampling, MIS, DR, and the defaults."""
