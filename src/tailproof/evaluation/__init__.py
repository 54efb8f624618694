"""`evaluate` and its result."""
