"""Classic consumer groups: all members join, the leader assigns, all members sync.

May import what `coordinator` may, and `offsets`. Start at `state.py`, then `rebalance.py`.
"""
