"""Groups: their machine, run over `__consumer_offsets`."""
