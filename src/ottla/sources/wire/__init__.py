"""Records read from brokers, with librdkafka or without. Start at `wire_source.py`."""
