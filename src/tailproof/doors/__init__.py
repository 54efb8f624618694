"""The front doors `evaluate`, `compare`, `diagnose` and `learn`, and their results."""
