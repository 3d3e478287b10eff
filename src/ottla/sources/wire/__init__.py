"""Reads records from brokers, with our own client or librdkafka. Start at `wire_source.py`."""
