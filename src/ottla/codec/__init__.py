"""Encoding: varints, checksums, compression, and declared messages. Start at `schema.py`."""
