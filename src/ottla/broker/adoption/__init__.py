"""Directories of another Kafka: taking over its metadata log, and handing it back."""
