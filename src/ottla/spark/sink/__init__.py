"""The sink: rows into a topic, each batch of a stream once. Start at `writer.py`."""
