"""Atomically written files with checksums that contain numbers and text only."""
