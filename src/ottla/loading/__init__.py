"""A log's records into a table: plan, decode, verify, commit, audit. Start at `load.py`."""
