"""The search plan: what was asked, trained, measured and kept, as a tree that only grows."""
