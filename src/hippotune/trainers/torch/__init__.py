"""Trainers on PyTorch, and data in an order that can be gone back to."""
