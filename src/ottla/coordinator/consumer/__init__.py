"""Consumer groups (KIP-848): the coordinator assigns, and members follow step by step.

May import what `coordinator` may, `offsets`, and of `classic` the consumers' protocol. Start at
`group.py`, then `heartbeats.py`.
"""
