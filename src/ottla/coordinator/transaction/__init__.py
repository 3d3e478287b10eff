"""Transactions: which producer writes where, and how each ended.

May import what `coordinator` may. Start at `state.py`, then `machine.py`.
"""
