"""The worker's half: a process that runs leases on a trainer."""
