"""Where a stream begins, goes on and ends, and what it loses. Start at `stream_plan.py`."""
