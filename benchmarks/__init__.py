"""Long measurements, each run as `python -m benchmarks.<name>`."""
