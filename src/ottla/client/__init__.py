"""A client of our own, for commands that ask a broker a few questions, and for the sink on Spark.

May import `protocol` and below. Start at `connection.py` (one broker), then `cluster.py` (who leads
what, and trying again), then `producer.py`.
"""
