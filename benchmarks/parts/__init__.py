"""What the benchmarks share: their options, and the parts of `outside.py`."""
