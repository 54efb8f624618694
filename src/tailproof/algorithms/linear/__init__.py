"""Additive statistics of linear algorithms, one batch layout, and what is solved from them."""
