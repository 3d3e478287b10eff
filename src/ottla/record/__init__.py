"""Record batches and records, in all of Kafka's formats. Start at `batch.py`."""
