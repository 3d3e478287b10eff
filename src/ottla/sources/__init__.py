"""Records from segment files and brokers, and the offsets to read. Start at `log_source.py`."""
