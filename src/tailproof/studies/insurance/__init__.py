"""The demonstration for insurers: what a cap does to a profit."""
