"""`ottla load` in this process."""
