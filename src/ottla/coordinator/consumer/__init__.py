"""Groups of the new protocol (KIP-848): the coordinator assigns, and members follow step by step.

May import what `coordinator` may, and of `group` the records, the offsets and the requests that
both protocols share. Start at `group.py`, then `heartbeats.py`; `machine.py` is the way in.
"""
