"""The sink: writes rows to topics, each batch of a stream once. Start at `writer.py`."""
