"""Consumer groups (KIP-848): the coordinator assigns partitions, and members follow step by step.

May import what `coordinator` may, `offsets`, and `classic/consumer_protocol.py`. Start at
`group.py`, then `heartbeats.py`.
"""
