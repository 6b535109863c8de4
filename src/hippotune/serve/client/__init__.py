"""The other end: what a study uses whose plan is on a server."""
