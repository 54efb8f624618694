"""The command line: one module for each group of commands, thin around the library."""

from tailproof.cli.app import app, main

__all__ = ["app", "main"]
