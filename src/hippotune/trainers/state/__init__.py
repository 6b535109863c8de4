"""The whole trainer as its state: what a checkpoint is made of, and how a trainer is made of it again."""
