"""Groups: their machine, backed by `__consumer_offsets`."""
