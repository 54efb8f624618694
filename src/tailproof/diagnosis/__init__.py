"""`diagnose` and its result."""
