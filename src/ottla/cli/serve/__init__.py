"""`ottla serve`: the broker, with its metrics and its startup progress."""
