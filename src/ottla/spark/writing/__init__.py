"""The sink: rows into a topic, each batch of a stream once."""
