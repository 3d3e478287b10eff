"""Record batches and records, in all of Kafka's formats.

May import `codec` and below. Start at `batch.py`.
"""
