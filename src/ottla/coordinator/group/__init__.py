"""Consumer groups: who reads what, and how far they are.

May import what `coordinator` may. Start at `records.py`, the group's memory on disk.
"""
