"""`compare` and its result."""
