"""Bases that learn policies: trees, clones, constants and improvements over the behaviour."""
