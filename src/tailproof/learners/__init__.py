"""Learners: policies by cloning, improvement and trees, and the careful default."""
