"""A log directory kept as it is: as a snapshot, brought back, or as another directory."""
