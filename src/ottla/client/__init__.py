"""Ottla's own Kafka client, for applications, commands and the sink on Spark.

May import `protocol` and below. Start at `connection.py` (one broker), then `cluster.py` (leaders
and retries), then `producer.py`.
"""
