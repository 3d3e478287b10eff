"""`ottla snapshot`: creates, restores and branches snapshots of a data directory."""
