"""K critics evaluated in one vectorised call, and aggregates of K values."""
