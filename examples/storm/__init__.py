"""The demonstration: a battery, a winter storm, and the choice for the next year."""
