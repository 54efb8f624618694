"""Logs: validated transitions by episode, and their partition into folds."""
