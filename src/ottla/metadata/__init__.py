"""The metadata of a Kafka cluster in KRaft mode: its records.

May import `record` and below; never `protocol`, `storage` or `broker`. Start at `records.py`.
"""
