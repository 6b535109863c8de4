"""The command line. A module for each command: its arguments, its help, and what it does."""

from hippotune.cli.main import main

__all__ = ["main"]
