"""The command line. A module for each command: its arguments, its help, and what it does."""

from hippo.cli.main import main

__all__ = ["main"]
