"""Ottla's own tagged fields in Kafka's messages, which other brokers and clients ignore."""

from typing import Final

OWN_TAG: Final = 100
"""Far from Kafka's, which count from 0."""
