"""Logs in memory and on disk: transitions by episode, validated once, and who sees which of them."""
