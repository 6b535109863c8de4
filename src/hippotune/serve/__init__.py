"""A server for plans: many clients, one tree. The engine, its loop and its tuners are those of one process.

User code runs in workers and tuner processes only: what a client sends is kept and passed on, never opened.
"""
