"""The messages between engine and executors, and the course of one lease: events, commands and `LeaseRun`."""
