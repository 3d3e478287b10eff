"""Classic consumer groups: all members join, the leader assigns, everybody syncs.

May import what `coordinator` may, and `offsets`. Start at `state.py`, then `rebalance.py`.
"""
