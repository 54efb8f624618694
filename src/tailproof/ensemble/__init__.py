"""K critics evaluated in one call, and how K values become one."""
