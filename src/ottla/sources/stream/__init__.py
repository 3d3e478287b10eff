"""Where a stream begins, continues and ends, and what it loses. Start at `stream_plan.py`."""
