"""Worked examples: notebooks, a battery in a winter storm, and an insurer's cap."""
