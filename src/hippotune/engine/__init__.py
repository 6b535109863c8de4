"""The engine: a state machine from events to commands. See `hippotune.engine.core`."""
