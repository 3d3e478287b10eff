"""The start, continuation, end and losses of a stream. Start at `stream_plan.py`."""
