"""What a plan is keyed by: source, globals, arguments, settings, data, versions.

A result belongs to what made it. Everything that training code reads is part of a plan's key, or training is
refused by an error that names it.
"""
