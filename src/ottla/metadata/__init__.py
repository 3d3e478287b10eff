"""The metadata of a Kafka cluster in KRaft mode: its records. Start at `records.py`."""
