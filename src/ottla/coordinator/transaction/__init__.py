"""Transactions: which producer writes where, and how each ended.

May import what `coordinator` may. Start at `records.py`, the coordinator's memory on disk.
"""
