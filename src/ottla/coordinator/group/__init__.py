"""Consumer groups: who reads what, and how far they are.

May import what `coordinator` may. Start at `state.py`, then `machine.py`;
`records.py` is the groups' memory on disk.
"""
