"""`ottla tokens`."""
