"""Facts that must last: a database for what plans know, files for checkpoints.

Nothing is imported here, so that what needs no database (keys, memory, files) is there at once.
"""
