"""Reads records from brokers. Start at `wire_source.py`."""
