"""Committed offsets of groups of every kind, and the records of `__consumer_offsets`.

May import what `coordinator` may. Start at `committed_offsets.py`; `records.py` is the format.
"""
