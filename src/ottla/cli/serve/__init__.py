"""`ottla serve`: the broker, with its metrics and its progress at the start."""
