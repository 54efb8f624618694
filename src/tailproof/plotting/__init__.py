"""Pictures: functions of a matplotlib Axes, behind `.plot()` of every result and behind the report."""
