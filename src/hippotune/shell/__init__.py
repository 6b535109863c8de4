"""The shell around the pure core: the event loop, the open plan, the writer of facts, progress for views."""
