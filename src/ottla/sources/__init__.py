"""Where records come from: files and brokers, and which offsets. Start at `log_source.py`."""
