"""The group and transaction coordinators: state machines that turn requests into records and
replies.

May import `record` and below; never `protocol`, `storage` or `broker`. Start at `decision.py`, then
`shard.py` for groups and `transaction/machine.py` for transactions.
"""
