"""Additive statistics of linear algorithms, and the solutions computed from them."""
