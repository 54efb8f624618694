"""The insurance demonstration: the effect of a cap on an estimated profit."""
