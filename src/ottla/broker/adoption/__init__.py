"""Directories of another Kafka: what is taken over from its metadata log, and given back."""
