"""The stage tree: what the open requests still need, and the longest chains in it."""
