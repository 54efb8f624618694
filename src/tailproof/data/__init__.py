"""Logs in memory and on disk: validated transitions by episode, and their partition into folds."""
