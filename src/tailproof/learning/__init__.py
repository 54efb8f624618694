"""`learn`, its careful default, and its result."""
