"""What the engine and executors say to each other, and how a lease goes: events, commands and `LeaseRun`."""
