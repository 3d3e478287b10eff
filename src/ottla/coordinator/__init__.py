"""Coordinators of groups and transactions: machines that turn requests into records and replies.

May import `record` and below; never `protocol`, `storage` or `broker`. Start at `decision.py`, then
`group/machine.py`.
"""
