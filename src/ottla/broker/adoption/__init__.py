"""Adoption of another Kafka's directories: metadata log import, and handover to Kafka."""
