"""Several workers that train one trial together."""
