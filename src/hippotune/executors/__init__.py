"""Where leases run."""
