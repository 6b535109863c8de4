"""What was done before, as it is in the store."""
