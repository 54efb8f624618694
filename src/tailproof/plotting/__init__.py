"""Plot functions on a matplotlib Axes, for `.plot()` of every result and for the report."""
