"""A config: a sequence for every hyper-parameter."""
