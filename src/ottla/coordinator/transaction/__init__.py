"""Transactions: their producers, their partitions and their outcomes.

May import what `coordinator` may. Start at `state.py`, then `machine.py`.
"""
