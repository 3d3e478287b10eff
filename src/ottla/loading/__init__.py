"""Loads records of a log into a table: plan, decode, verify, commit, audit. Start at `load.py`."""
