"""Properties of a log and the decisions based on them, shared by evaluate, compare, learn, diagnose."""
