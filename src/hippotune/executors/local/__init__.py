"""Workers as processes on this machine."""
