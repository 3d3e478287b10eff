"""Where records come from: files, brokers, and which offsets of them. Start at `log_source.py`."""
